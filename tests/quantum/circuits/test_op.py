"""The op of tensors: its gradient goes back from the states of the last run where they are its own."""

from __future__ import annotations

import numpy as np
import pytest

import pdl
from pdl.errors import UsageError
from pdl_quantum.circuits import Circuit, Parameter, PauliSum, gradients
from pdl_quantum.circuits.observables import Observables
from pdl_quantum.ops import circuit as ops
from pdl_quantum.ops import circuit_expectation
from tests.quantum.circuits.reference import dense_sum, random_circuit, random_sum


def small() -> tuple[Circuit, PauliSum]:
    theta = Parameter("theta", (4,))
    circuit = Circuit(2).ry(theta[:2]).cnot(0, 1).rx(theta[2], 0).ry(theta[3], 1)
    return circuit, PauliSum(2, {"ZZ": 0.5, "XI": 1.0})


def test_a_gradient_behind_its_own_run_makes_no_second_one(monkeypatch: pytest.MonkeyPatch) -> None:
    circuit, observable = small()
    runs, evolved = list[int](), ops.evolved
    monkeypatch.setattr(ops, "evolved", lambda c, rows, *more: (runs.append(len(rows)), evolved(c, rows, *more))[1])
    rng = np.random.default_rng(0)
    a, b = (pdl.Tensor(rng.standard_normal((n, 4)), requires_grad=True) for n in (3, 5))

    slopes = {x: gradients(circuit, observable, x.detach().numpy())[1] for x in (a, b)}
    circuit_expectation(circuit, [observable], a).sum().backward()
    assert runs == [3]
    np.testing.assert_allclose(a.grad.numpy(), slopes[a], atol=1e-12)
    runs.clear()
    first, second = (circuit_expectation(circuit, [observable], x).sum() for x in (b, a))
    first.backward()  # the last run was of others
    assert runs == [5, 3, 5]
    np.testing.assert_allclose(b.grad.numpy(), slopes[b], atol=1e-12)
    second.backward()  # and is gone
    assert runs == [5, 3, 5, 3]
    np.testing.assert_allclose(a.grad.numpy(), 2 * slopes[a], atol=1e-12)


def test_other_initial_states_are_other_runs() -> None:
    circuit, observable = small()
    rng = np.random.default_rng(1)
    p = pdl.Tensor(rng.standard_normal((2, 4)), requires_grad=True)
    starts = [rng.standard_normal((2, 4)) for _ in range(2)]
    s = [pdl.Tensor(start / np.linalg.norm(start, axis=1, keepdims=True)) for start in starts]
    first, _ = (circuit_expectation(circuit, [observable], p, each).sum() for each in s)
    first.backward()
    expected = gradients(circuit, observable, p.detach().numpy(), initial=s[0].numpy())[1]
    np.testing.assert_allclose(p.grad.numpy(), expected, atol=1e-12)


@pytest.mark.parametrize("n", [2, 5])
def test_sums_weighed_state_by_state(n: int) -> None:
    rng = np.random.default_rng(n)
    sums = [random_sum(rng, n, terms) for terms in (3, 1, 6)]
    z = rng.standard_normal((4, 1 << n)) + 1j * rng.standard_normal((4, 1 << n))
    weights = rng.standard_normal((4, 3))
    dense = np.stack([dense_sum(each) for each in sums])
    held = Observables(sums)
    np.testing.assert_allclose(held.weighted(z, weights), np.einsum("bk,kij,bj->bi", weights, dense, z), atol=1e-12)
    expected = np.einsum("bi,kij,bj->bk", z.conj(), dense, z).real
    np.testing.assert_allclose(held.expectations(z), expected, atol=1e-11)
    with pytest.raises(UsageError, match="must be real"):
        Observables([PauliSum(n, {"X" * n: 1j})])


def test_many_observables_behind_a_random_circuit() -> None:
    rng = np.random.default_rng(5)
    circuit = random_circuit(rng, 4, 30)
    sums = [random_sum(rng, 4, 3) for _ in range(5)]
    p = pdl.Tensor(rng.uniform(-3, 3, (3, circuit.num_parameters)), requires_grad=True)
    weights = rng.standard_normal((3, 5))
    (circuit_expectation(circuit, sums, p) * pdl.Tensor(weights)).sum().backward()
    slopes = np.stack([gradients(circuit, each, p.detach().numpy())[1] for each in sums], 1)
    np.testing.assert_allclose(p.grad.numpy(), np.einsum("bk,bkp->bp", weights, slopes), atol=1e-11)
