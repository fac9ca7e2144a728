"""VQE from recipe to bundle, and circuits that keep the electrons."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from pdl.config import load
from pdl.errors import ConfigError, DataError
from pdl.runtime import load as load_bundle
from pdl.workflow import evaluate, predict, train
from pdl_quantum import spectrum as sector
from pdl_quantum import uccsd
from pdl_quantum.chemistry import excitations
from pdl_quantum.chemistry.mappings import reordered
from pdl_quantum.chemistry.uccsd import shared
from pdl_quantum.circuits import PauliSum, gradients, states
from pdl_quantum.data.molecule import one, shipped
from pdl_quantum.spectrum import Sector, levels


def test_from_recipe_to_bundle(tmp_path: Path) -> None:
    """The energy of full configuration interaction (-1.137270 Hartree), in run, evaluation, answers and bundle."""
    run = tmp_path / "run"
    result = train(load("quantum/h2_vqe"), run=run, progress=False)
    kept = json.loads((run / "result.json").read_text())["metrics"]
    assert kept["exact"] == pytest.approx(-1.13727017, abs=1e-8)
    assert abs(kept["energy"] - kept["exact"]) == pytest.approx(kept["energy_error"], abs=1e-12)
    assert kept["energy_error"] < 1e-6
    assert list(kept)[:3] == ["energy", "exact", "energy_error"]
    assert evaluate(run).metrics["energy"] == pytest.approx(kept["energy"], abs=1e-12)
    assert evaluate(run / "model.pdl").metrics["energy"] == pytest.approx(kept["energy"], abs=1e-12)

    words = ["energy", "Z0 Z1", "X0X1Y2Y3", "Z0"]
    answers = [each["expectation"] for each in predict(run, words)]
    session = load_bundle(run / "model.pdl")
    assert answers == pytest.approx([session(word)["expectation"] for word in words], abs=1e-12)
    assert answers[0] == pytest.approx(kept["energy"], abs=1e-12)
    assert answers[1] == pytest.approx(1.0, abs=1e-12)  # spins stay paired
    page = (run / "report.html").read_text()
    assert "|energy - exact|" in page
    assert "|1100&gt;" in page
    assert "<td>2.00000000</td><td>0.00000000</td>" in page  # electrons, S_z
    assert result.next.endswith("energy")


def test_splits_must_agree(tmp_path: Path) -> None:
    other = "data.test={_target_: pdl_quantum.data.Molecule, source: H2, length: 0.8}"
    with pytest.raises(ConfigError, match=r"data.test: has other problems than data.train"):
        train(load("quantum/h2_vqe", [other]), run=tmp_path / "run", progress=False)


def test_uccsd_keeps_electrons_and_spin() -> None:
    rng = np.random.default_rng(0)
    for restricted in (False, True):
        circuit = uccsd(8, 4, restricted=restricted)
        state = states(circuit, rng.standard_normal(circuit.num_parameters))[0]
        outside = np.abs(np.delete(state, Sector(8, up=2, down=2).indices()))
        assert outside.max() < 1e-12
        assert np.linalg.norm(state) == pytest.approx(1.0, abs=1e-12)


def test_excitations_that_share_a_parameter_are_spins_turned_around() -> None:
    """Of the sum of their generators, with the sign that UCCSD takes, nothing changes where up and down are named
    anew; and so it commutes with that exchange."""
    chosen = excitations(8, 4)
    turned = [mode ^ 1 for mode in range(8)]
    places = shared(chosen)
    for number in range(1 + max(number for number, _ in places)):
        total = PauliSum(8)
        for each, (own, sign) in zip(chosen, places, strict=True):
            total = total + each.generator(8) * sign * (own == number)
        assert reordered(total, turned).simplified().terms == pytest.approx(total.simplified().terms, abs=1e-14)
    assert uccsd(8, 4, restricted=True).num_parameters == 1 + max(number for number, _ in places) < len(chosen)


def test_symmetries_leave_out_what_has_no_gradient() -> None:
    """LiH: excitations that break a symmetry have no gradient at the Hartree-Fock state, nor any others."""
    molecule = one("LiH")
    assert len(molecule.symmetries) == 4  # both parities of spin, and the two planes of a line
    circuit, fewer = uccsd(12, 4), uccsd(12, 4, symmetries=molecule.symmetries)
    _, slope = gradients(circuit, molecule.hamiltonian, np.zeros(circuit.num_parameters))
    assert fewer.num_parameters < circuit.num_parameters
    _, kept = gradients(fewer, molecule.hamiltonian, np.zeros(fewer.num_parameters))
    assert np.sort(np.abs(slope[0][np.abs(slope[0]) > 1e-9])) == pytest.approx(
        np.sort(np.abs(kept[0][np.abs(kept[0]) > 1e-9]))
    )


@pytest.mark.parametrize("molecule", [*shipped("H2")[::6], one("H3+"), one("LiH")], ids=lambda each: each.name)
def test_shipped_molecules_have_the_energies_they_say(molecule) -> None:
    assert molecule.levels()[0] == pytest.approx(molecule.exact, abs=1e-9)
    ground = np.zeros((1, 1 << molecule.num_qubits), complex)
    ground[0, ((1 << molecule.num_electrons) - 1) << molecule.num_qubits - molecule.num_electrons] = 1
    assert molecule.hamiltonian.expectation(ground)[0] == pytest.approx(molecule.hartree_fock, abs=1e-9)


def test_lanczos_agrees_with_diagonalising() -> None:
    molecule = one("LiH")
    inside = Sector(12, 2, 2).indices()
    dense = np.linalg.eigvalsh(sector.block(molecule.hamiltonian, inside))
    assert sector._lanczos(molecule.hamiltonian, inside, 1)[0] == pytest.approx(dense[0], abs=1e-9)
    free = levels(one("H3+").hamiltonian, Sector(6))
    assert free[0] == pytest.approx(-1.3593027516, abs=1e-8)  # with more electrons; below that of two


def test_names_of_molecules_are_checked() -> None:
    with pytest.raises(DataError, match="did you mean 'LiH'"):
        one("LiHH")
    with pytest.raises(DataError, match=r"there is no length of 0\.75"):
        one("H2", 0.75)


@pytest.mark.parametrize(("recipe", "within"), [("h3_vqe", 1e-6), ("h2_curve_vqe", 1e-4)])
def test_recipes_reach_what_they_say(recipe: str, within: float, tmp_path: Path) -> None:
    """H3+ with two electrons (a state with more lies lower); H2 at 31 lengths, each with parameters of its own."""
    found = train(load(f"quantum/{recipe}", ["train.export=false"]), run=tmp_path / "run", progress=False).metrics
    assert found["energy_error"] < within
    exact = {"h3_vqe": -1.2744362128, "h2_curve_vqe": np.mean([each.exact for each in shipped("H2")])}
    assert found["exact"] == pytest.approx(exact[recipe], abs=1e-9)
    page = (tmp_path / "run/report.html").read_text()
    assert ("Energy by bond length" in page) == (recipe == "h2_curve_vqe")
