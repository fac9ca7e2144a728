"""Shift rules, Hessians and the metric beside adjoint gradients, differences, and closed forms."""

from __future__ import annotations

import numpy as np
import pytest

from pdl.errors import UsageError
from pdl_quantum.circuits import (
    Circuit,
    NoiseModel,
    Parameter,
    PauliSum,
    amplitude_damping,
    bandwidths,
    density_expectations,
    depolarizing,
    finite_differences,
    gradients,
    hessian,
    hessian_vector,
    metric_tensor,
    noisy,
    parameter_shift,
    quantum_fisher,
    states,
)
from pdl_quantum.circuits.gates import CONTROLLED, KINDS
from tests.quantum.circuits.reference import random_circuit, random_instructions, random_sum

TURNING = sorted(name for name in {*KINDS, *CONTROLLED} if KINDS[CONTROLLED.get(name, (name, 0))[0]].angles)


@pytest.mark.parametrize("name", TURNING)
def test_every_gate_obeys_the_shift_rule(name: str) -> None:
    """Angles with factors, one parameter in all of them: beside differences, which know nothing of generators."""
    rng = np.random.default_rng(sum(map(ord, name)))
    kind, controls = CONTROLLED.get(name, (name, 0))
    n, a = controls + KINDS[kind].qubits, Parameter("a")
    circuit = Circuit(n).ry(rng.uniform(0.3, 2, n).tolist())
    angles = [(a.angles[()] * f + 0.2) for f in (1.0, -0.7, 1.6)[: KINDS[kind].angles]]
    circuit.gate(name, *angles, *range(n)).rx(rng.uniform(0.3, 2, n).tolist())
    observable = random_sum(rng, n, 4)
    found = parameter_shift(circuit, observable, [0.4])
    assert np.abs(found).max() > 1e-4
    np.testing.assert_allclose(found, finite_differences(circuit, observable, [0.4]), atol=1e-11)


@pytest.mark.parametrize("seed", range(8))
def test_shifts_are_adjoint_gradients(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 6))
    circuit, observable, values = random_circuit(rng, n, 25), random_sum(rng, n, 4), rng.uniform(-4, 4, (2, 6))
    expected = gradients(circuit, observable, values)[1]
    np.testing.assert_allclose(parameter_shift(circuit, observable, values), expected, atol=1e-11)
    start = rng.standard_normal(1 << n) + 1j * rng.standard_normal(1 << n)
    start /= np.linalg.norm(start)
    np.testing.assert_allclose(parameter_shift(circuit, observable, values, initial=start),
                               gradients(circuit, observable, values, initial=start)[1], atol=1e-11)  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_shifts_under_noise(seed: int) -> None:
    """Channels, measurements and conditions: derivatives of the density matrix' expectations."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 4))
    circuit, observable, values = random_instructions(rng, n, 5), random_sum(rng, n, 3), rng.uniform(-2, 2, (2, 6))
    step, found = 1e-3, parameter_shift(circuit, observable, values)
    for k in range(6):
        at = [density_expectations(circuit, observable, values + np.eye(6)[k] * s * step) for s in (-2, -1, 1, 2)]
        np.testing.assert_allclose(found[:, k], (at[0] - 8 * at[1] + 8 * at[2] - at[3]) / (12 * step), atol=1e-8)


def test_depolarizing_shrinks_the_slope_by_what_it_leaves() -> None:
    circuit = noisy(Circuit(1).ry("a", 0), NoiseModel().after("ry", depolarizing(0.25)))
    found = parameter_shift(circuit, PauliSum(1, {"Z": 1.0}), [0.3])
    assert found[0, 0] == pytest.approx(-0.75 * np.sin(0.3), abs=1e-14)


@pytest.mark.parametrize("seed", range(6))
def test_hessians_by_shifts_are_differences_of_gradients(seed: int) -> None:
    rng = np.random.default_rng(50 + seed)
    n = int(rng.integers(1, 6))
    circuit, observable, values = random_circuit(rng, n, 25), random_sum(rng, n, 4), rng.uniform(-4, 4, (2, 6))
    found, step = hessian(circuit, observable, values), 1e-3
    for k in range(6):
        at = [gradients(circuit, observable, values + np.eye(6)[k] * s * step)[1] for s in (-2, -1, 1, 2)]
        np.testing.assert_allclose(found[:, k], (at[0] - 8 * at[1] + 8 * at[2] - at[3]) / (12 * step), atol=1e-7)
    v = rng.standard_normal((2, 6))
    exact = np.einsum("bij,bj->bi", found, v)
    scale = (np.abs(v) @ bandwidths(circuit)) * sum(abs(c) for c in observable.terms.values())
    product = hessian_vector(circuit, observable, values, v)
    assert (np.abs(product - exact).max(1) <= 1e-12 * scale * bandwidths(circuit).max()).all()


def test_hessian_products_of_a_deep_circuit() -> None:
    """200 parameters: to 1e-11 of the product itself, beside the exact Hessian."""
    rng, n = np.random.default_rng(0), 5
    theta, circuit = Parameter("theta", (20, n, 2)), Circuit(n)
    for layer in range(20):
        circuit.ry(theta[layer, :, 0]).rz(theta[layer, :, 1])
        for q in range(n - 1):
            circuit.cz(q, q + 1)
    observable, values, v = random_sum(rng, n, 6), rng.uniform(-3, 3, 200), rng.standard_normal(200)
    exact = hessian(circuit, observable, values)[0] @ v
    found = hessian_vector(circuit, observable, values, v)[0]
    assert np.abs(found - exact).max() < 1e-11 * np.abs(exact).max()
    np.testing.assert_array_equal(hessian_vector(circuit, observable, values, np.zeros(200)), 0)


def test_hessian_of_one_rotation() -> None:
    circuit, z = Circuit(1).ry(Parameter("a").angles[()] * 2 + 0.1, 0), PauliSum(1, {"Z": 1.0})
    assert hessian(circuit, z, [0.3])[0, 0, 0] == pytest.approx(-4 * np.cos(0.7), abs=1e-14)
    assert bandwidths(circuit).tolist() == [2.0]
    found = hessian_vector(circuit, z, [0.3], [3.0])  # all of it is at the bandwidth: what the bound allows for
    assert found[0, 0] == pytest.approx(-12 * np.cos(0.7), abs=12e-12)


@pytest.mark.parametrize("seed", range(6))
def test_metric_is_that_of_differences_of_states(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 5))
    circuit, row, step = random_circuit(rng, n, 20), rng.uniform(-3, 3, 6), 1e-3
    z = states(circuit, row)[0]
    slopes = []
    for k in range(6):
        at = [states(circuit, row + np.eye(6)[k] * s * step)[0] for s in (-2, -1, 1, 2)]
        slopes.append((at[0] - 8 * at[1] + 8 * at[2] - at[3]) / (12 * step))
    d = np.array(slopes)
    expected = (d.conj() @ d.T - np.outer(d.conj() @ z, (d.conj() @ z).conj())).real
    np.testing.assert_allclose(metric_tensor(circuit, row)[0], expected, atol=1e-7)


def test_fisher_information_in_closed_form() -> None:
    """RY then RZ on |0>: diag(1, sin^2), the sphere's metric."""
    circuit = Circuit(1).ry("a", 0).rz("b", 0)
    np.testing.assert_allclose(quantum_fisher(circuit, [0.7, 0.2])[0], np.diag([1, np.sin(0.7) ** 2]), atol=1e-14)


def test_what_is_for_gates_alone_says_so() -> None:
    circuit = Circuit(1).ry("a", 0).channel(amplitude_damping(0.1))
    for call in (hessian, lambda *a: hessian_vector(*a, [1.0]), lambda c, _, v: metric_tensor(c, v)):
        with pytest.raises(UsageError, match="gates alone"):
            call(circuit, PauliSum(1, {"Z": 1.0}), [0.1])
    with pytest.raises(UsageError, match=r"a vector \(2,\) for 1 parameters"):
        hessian_vector(Circuit(1).ry("a", 0), PauliSum(1, {"Z": 1.0}), [0.1], [1.0, 2.0])
