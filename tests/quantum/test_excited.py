"""Several levels at once: SSVQE and VQD against diagonalising."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import pdl
from pdl.config import load
from pdl.errors import ConfigError, DataError
from pdl.workflow import evaluate, predict, train
from pdl_quantum import SSVQE, SubspaceAnsatz
from pdl_quantum.circuits import Circuit, states
from pdl_quantum.data import Hamiltonian, RandomHamiltonian
from pdl_quantum.data.molecule import one
from pdl_quantum.templates import strongly_entangling
from pdl_quantum.vqd.losses import overlaps


@pytest.mark.parametrize("recipe", ["h2_ssvqe", "h2_vqd", "random_ssvqe"])
def test_all_levels_are_found(recipe: str, tmp_path: Path) -> None:
    run = tmp_path / "run"
    found = train(load(f"quantum/{recipe}"), run=run, progress=False).metrics
    problem = RandomHamiltonian(2, 10, 14).problems[0] if recipe == "random_ssvqe" else one("H2", 0.7414).problem()
    exact = np.linalg.eigvalsh(problem.hamiltonian.matrix())
    if recipe != "random_ssvqe":  # two electrons, one with each spin: 4 of the 16 states
        inside = [0b1100, 0b1001, 0b0110, 0b0011]
        exact = np.linalg.eigvalsh(problem.hamiltonian.matrix()[np.ix_(inside, inside)])
    answer = predict(run, ["energy"])[0]
    assert [answer[f"level {k}"] for k in range(4)] == pytest.approx(exact, abs=1e-5)
    assert found["energy"] == pytest.approx(exact[0], abs=1e-5)
    assert found["exact"] == pytest.approx(exact[0], abs=1e-10)
    measured = evaluate(run / "model.pdl").metrics
    assert measured["energy_error"] == pytest.approx(found["energy_error"], abs=1e-9)


def test_states_of_a_subspace_stay_orthogonal() -> None:
    pdl.seed(0)
    model = SubspaceAnsatz(strongly_entangling(3, 2), ["000", "011", "101"], initial="uniform", scale=3.0)
    made = model.states()
    np.testing.assert_allclose(made.conj() @ made.T, np.eye(3), atol=1e-12)
    by_hand = states(Circuit(3).x(1, 2).append(strongly_entangling(3, 2)), model.theta.detach().numpy())[0]
    np.testing.assert_allclose(made[1], by_hand, atol=1e-14)


def test_overlaps_are_those_below() -> None:
    rng = np.random.default_rng(0)
    z = rng.standard_normal((3, 4)) + 1j * rng.standard_normal((3, 4))
    found = overlaps(pdl.as_tensor(np.stack([z.real, z.imag], 1))).numpy()
    np.testing.assert_allclose(found, np.tril(np.abs(z.conj() @ z.T) ** 2, -1), atol=1e-12)


def test_no_gradient_reaches_the_levels_below() -> None:
    parts = pdl.Tensor(np.random.default_rng(1).standard_normal((3, 2, 4)), requires_grad=True)
    overlaps(parts)[1, 0].backward()
    assert np.abs(parts.grad.numpy()[1]).max() > 0.1
    assert not parts.grad.numpy()[[0, 2]].any()


def test_faults_are_told() -> None:
    with pytest.raises(ConfigError, match="must descend"):
        SSVQE([1.0, 1.0])
    with pytest.raises(ConfigError, match="different basis states"):
        SubspaceAnsatz(strongly_entangling(2, 1), ["00", "00"])
    with pytest.raises(ConfigError, match="no basis state of 2 qubits"):
        SubspaceAnsatz(strongly_entangling(2, 1), ["00", "012"])
    with pytest.raises(DataError, match="without terms"):
        Hamiltonian({})
    with pytest.raises(DataError, match="is no word of 2 letters"):
        Hamiltonian({"ZZ": 1.0, "Z": 2.0})
    with pytest.raises(DataError, match="there are 15 words"):
        RandomHamiltonian(2, 16, 0)
