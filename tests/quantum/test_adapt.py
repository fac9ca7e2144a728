"""Circuits that grow: slopes, order, and what is kept."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pdl.config import load
from pdl.errors import ConfigError
from pdl.workflow import evaluate, train
from pdl_quantum import AdaptAnsatz
from pdl_quantum.chemistry import Excitation, excitation_pool, givens, k_upccgsd, qubit_pool
from pdl_quantum.chemistry.uccsd import rotate
from pdl_quantum.circuits import Angle, Circuit, expectations, states
from pdl_quantum.data.molecule import one
from pdl_quantum.spectrum import Sector


@pytest.mark.parametrize("pool", [excitation_pool, qubit_pool])
def test_slopes_are_derivatives(pool) -> None:
    """Against central differences of the energy of a circuit with one operator more."""
    molecule, made = one("H3+"), pool(6, 2)
    model = AdaptAnsatz(made, 3)
    model.theta._data[...] = 0.3
    model.grow(molecule.hamiltonian, 1e-6)
    found = model.gradients(molecule.hamiltonian)
    for number, generator in enumerate(made.generators):
        circuit = rotate(model.circuit.copy(), generator, Angle("last", -1))
        rows = {"theta": model.theta.detach().numpy()[0], "last": 0.0}
        above, below = (expectations(circuit, molecule.hamiltonian, {**rows, "last": s})[0] for s in (1e-5, -1e-5))
        assert found[number] == pytest.approx((above - below) / 2e-5, abs=1e-8)


def test_it_grows_by_the_steepest_operator_until_none_is_steep() -> None:
    molecule = one("H2", 0.7414)
    model = AdaptAnsatz(excitation_pool(4, 2), 2)
    assert model.grow(molecule.hamiltonian, 1e-4)
    assert [model.pool.names[k] for k in model.operators_chosen] == ["0,1 -> 2,3"]  # singles have no slope (Brillouin)
    assert model.slopes.numpy()[0] == pytest.approx(4 * 0.0453222 * 2, abs=1e-5)  # 2 (pq|pq), from the Hamiltonian
    model.theta._data[0, 0] = -0.11311  # the least energy that a double excitation reaches: that of H2
    assert not model.grow(molecule.hamiltonian, 1e-3)


def test_from_recipe_to_bundle(tmp_path: Path) -> None:
    """LiH to chemical accuracy with six operators; the run and its bundle agree."""
    settings = ["model.operators=6", "train.epochs=6"]
    found = train(load("quantum/lih_adapt_vqe", settings), run=tmp_path / "run", progress=False).metrics
    assert found["energy_error"] < 1.6e-3
    assert found["operators"] == 6
    for each in (tmp_path / "run", tmp_path / "run/model.pdl"):
        assert evaluate(each).metrics["energy"] == pytest.approx(found["energy"], abs=1e-10)
    assert "slope when it was chosen" in (tmp_path / "run/report.html").read_text()


def test_one_problem_only() -> None:
    with pytest.raises(ConfigError, match="for one problem"):
        AdaptAnsatz(excitation_pool(4, 2), 2, rows=3)


@pytest.mark.parametrize("circuit", [givens(8, 4, layers=2), k_upccgsd(8, 4, 2)], ids=["givens", "k_upccgsd"])
def test_electrons_and_spin_are_kept(circuit) -> None:
    state = states(circuit, np.random.default_rng(0).standard_normal(circuit.num_parameters))[0]
    assert np.abs(np.delete(state, Sector(8, up=2, down=2).indices())).max() < 1e-12
    assert len(np.flatnonzero(np.abs(state) > 1e-6)) == 36  # all of the sector is reached


def test_givens_rotations_are_two_by_two() -> None:
    """A single excitation of qubits turns |10> into |01> whatever stands between, as G(theta) of arXiv 2104.05695."""
    generator, theta = Excitation((0,), (2,)).generator(3, strings=False), 0.7
    for between in (0, 1):
        start = Circuit(3).x(0, *([1] if between else []))
        state = states(rotate(start, generator, Angle(None, 0, 1.0, theta)))[0]
        wanted = np.zeros(8)
        wanted[0b100 | between << 1], wanted[0b001 | between << 1] = np.cos(theta), np.sin(theta)
        np.testing.assert_allclose(state, wanted, atol=1e-14)
