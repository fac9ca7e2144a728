"""Gibbs states and eigenvalues of density matrices, from recipe to bundle."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdl.config import load
from pdl.errors import ConfigError, DataError
from pdl.workflow import evaluate, predict, train
from pdl_quantum.circuits import fidelity, root_fidelity, states
from pdl_quantum.data import MixedState, ThermalState
from pdl_quantum.mixed.metrics import fidelities
from pdl_quantum.mixed.problem import spectral
from pdl_quantum.problems.diagonal import from_table, table
from pdl_quantum.templates import prepared_state


def trained(recipe: str, run: Path, *settings: str) -> dict[str, Any]:
    """The metrics of a run, as its folder keeps them; the bundle measures the same."""
    train(load(f"quantum/{recipe}", list(settings)), run=run, progress=False)
    kept: dict[str, Any] = json.loads((run / "result.json").read_text())["metrics"]
    for name, value in evaluate(run / "model.pdl").metrics.items():
        assert value == pytest.approx(kept[name], abs=1e-7), name  # root_fidelity has roots of what is as good as 0
    return kept


def test_the_published_gibbs_state(tmp_path: Path) -> None:
    kept = trained("gibbs_ising", tmp_path / "run")
    rank_two = 2 * np.exp(4.5) / (2 * np.exp(4.5) + 6 * np.exp(-1.5))
    assert 0.9955**2 < kept["fidelity"] < rank_two
    assert kept["root_fidelity"] ** 2 == pytest.approx(kept["fidelity"])
    assert list(kept)[:5] == ["fidelity", "root_fidelity", "energy", "exact", "energy_error"]
    together = predict(tmp_path / "run", ["Z1 Z2", "Z2 Z3", "Z1 Z3"])  # qubit 0 is the one in front
    assert -sum(each["expectation"] for each in together) == pytest.approx(kept["energy"], abs=1e-9)


def test_fidelity_is_that_of_the_library_and_its_root_has_another_name() -> None:
    made = fidelities(np.diag([0.5, 0.5]))
    for metric in made.values():
        metric.update(None, None, np.diag([0.9, 0.1]))
    assert made["fidelity"].compute() == pytest.approx(fidelity(np.diag([0.9, 0.1]), np.diag([0.5, 0.5])))
    assert made["fidelity"].compute() == pytest.approx((np.sqrt(0.45) + np.sqrt(0.05)) ** 2)
    assert made["root_fidelity"].compute() == pytest.approx(np.sqrt(0.45) + np.sqrt(0.05))


def test_a_gibbs_state_of_a_chain(tmp_path: Path) -> None:
    settings = ("task.order=30", "model.circuit.layers=4", "train.epochs=10", "data.train.spins=2")
    kept = trained("gibbs_tfi", tmp_path / "run", *settings)
    assert kept["fidelity"] > 0.99
    problem = ThermalState(chain="transverse_ising", spins=2).problem
    assert kept["exact"] == pytest.approx(float(np.trace(problem.state @ problem.system.matrix()).real))


def test_eigenvalues_of_a_density_matrix(tmp_path: Path) -> None:
    kept = trained("vqsd", tmp_path / "run")
    assert kept["spectrum_error"] < 1e-4
    assert kept["fidelity"] > 0.9999
    page = (tmp_path / "run" / "report.html").read_text()
    assert "Spectrum" in page
    assert "0.500000" in page
    other = [f"data.{split}.seed=1" for split in ("train", "val", "test")]
    with pytest.raises(ConfigError, match="that of another density matrix"):
        train(load(tmp_path / "run" / "config.yaml", other), run=tmp_path / "again", progress=False)


def test_a_density_matrix_of_a_file_and_low_rank(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    some = rng.normal(size=(8, 3)) + 1j * rng.normal(size=(8, 3))
    rho = some @ some.conj().T
    rho /= np.trace(rho).real
    np.save(tmp_path / "rho.npy", rho)
    problem = MixedState(file=str(tmp_path / "rho.npy")).problem
    assert problem.num_qubits == 5  # rank 3: two more
    pure = states(prepared_state(np.array(problem.facts["state"][0]) + 1j * np.array(problem.facts["state"][1])))[0]
    parts = pure.reshape(8, 4)
    assert root_fidelity(parts @ parts.conj().T, rho) == pytest.approx(1)
    assert problem.exact == pytest.approx(float(problem.spectrum @ np.arange(1, 9)) / 36)
    np.save(tmp_path / "no.npy", 2 * rho)
    with pytest.raises(DataError, match="trace 1"):
        MixedState(file=str(tmp_path / "no.npy"))
    with pytest.raises(DataError, match="give either"):
        ThermalState()


def test_the_least_cost_has_the_eigenvalues_in_order() -> None:
    """No turn of the eigenvectors has a lower one (Schur and Horn)."""
    rng = np.random.default_rng(1)
    problem = spectral("x", np.diag([0.1, 0.4, 0.2, 0.3]).astype(complex))
    ranks = np.arange(1, 5) / 10
    for _ in range(20):
        turn = np.linalg.qr(rng.normal(size=(4, 4)) + 1j * rng.normal(size=(4, 4)))[0]
        diagonal = np.diag(turn @ problem.density @ turn.conj().T).real
        assert problem.exact is not None
        assert diagonal @ ranks >= problem.exact - 1e-12


@pytest.mark.parametrize("n", [1, 2, 4])
def test_any_state_can_be_prepared(n: int) -> None:
    rng = np.random.default_rng(n)
    state = (rng.normal(size=1 << n) + 1j * rng.normal(size=1 << n)) * (rng.random(1 << n) < 0.7)
    state[0] += 0.1
    state /= np.linalg.norm(state)
    circuit = prepared_state(state)
    assert abs(np.vdot(state, states(circuit)[0])) == pytest.approx(1, abs=1e-12)
    assert len(circuit) <= 2 * ((1 << n) - 1)


def test_tables_are_sums_and_back() -> None:
    made = np.random.default_rng(2).normal(size=16)
    np.testing.assert_allclose(table(from_table(made)), made, atol=1e-12)
