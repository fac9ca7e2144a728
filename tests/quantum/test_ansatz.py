"""Circuits as models: initial values, rows, what they keep of their problems, what is inferred from data."""

from __future__ import annotations

import numpy as np
import pytest

import pdl
from pdl.config.inferred import filled, infer
from pdl.errors import ConfigError, DataError
from pdl_quantum import Ansatz, Eigenproblem, Eigenproblems, uccsd
from pdl_quantum.circuits import Circuit, PauliSum, expectations
from pdl_quantum.data import Molecule
from pdl_quantum.data.eigenproblems import problems_of
from pdl_quantum.templates import real_amplitudes

SUMS = [PauliSum(2, {"ZZ": 1.0, "XI": 0.5}), PauliSum(2, {"ZZ": -1.0, "IY": 0.25})]


def test_initial_values() -> None:
    pdl.seed(0)
    circuit = real_amplitudes(2, 1)
    theta = {kind: Ansatz(circuit, initial=kind, scale=0.5, rows=500).theta.detach().numpy()
             for kind in ("zeros", "normal", "uniform")}  # fmt: skip
    assert not theta["zeros"].any()
    assert theta["normal"].std() == pytest.approx(0.5, rel=0.05)
    assert np.abs(theta["uniform"]).max() == pytest.approx(0.5, rel=0.02)
    given = Ansatz(circuit, initial=[0.1, 0.2, 0.3, 0.4], rows=2).theta.detach().numpy()
    np.testing.assert_array_equal(given, [[0.1, 0.2, 0.3, 0.4]] * 2)
    with pytest.raises(ConfigError, match="initial has 2 values, the circuit has 4"):
        Ansatz(circuit, initial=[0.1, 0.2])
    with pytest.raises(ConfigError, match="nothing to learn"):
        Ansatz(Circuit(1).h(0))


def test_each_row_has_its_own_hamiltonian_and_gradient() -> None:
    pdl.seed(1)
    model = Ansatz(real_amplitudes(2, 1), initial="normal", scale=1.0, rows=2)
    energies = model.energies(SUMS)
    rows = model.theta.detach().numpy()
    wanted = [expectations(model.circuit, each, row)[0] for each, row in zip(SUMS, rows, strict=True)]
    np.testing.assert_allclose(energies.detach().numpy(), wanted, atol=1e-14)
    energies[0].backward()
    found = model.theta.grad.numpy()
    assert np.abs(found[0]).max() > 1e-3
    assert not found[1].any()


def test_hamiltonians_are_kept() -> None:
    model = Ansatz(real_amplitudes(2, 1), rows=2, terms=3)
    model.hold(SUMS)
    again = Ansatz(real_amplitudes(2, 1), rows=2, terms=3)
    again.load_state_dict(model.state_dict())
    assert [each.terms for each in again.held()] == [each.terms for each in SUMS]


def test_what_the_recipe_leaves_open_comes_from_the_data() -> None:
    node = {"_target_": "pdl_quantum.Ansatz", "circuit": {"_target_": "pdl_quantum.uccsd", "num_electrons": 2}}
    facts = {"num_qubits": 8, "num_electrons": 4, "rows": 1, "nothing": 0}
    found = infer(node, facts)
    assert found == {"rows": 1, "circuit": {"num_qubits": 8}}
    assert filled(node, found)["circuit"] == {"_target_": "pdl_quantum.uccsd", "num_electrons": 2, "num_qubits": 8}
    assert "rows" not in node


def test_problems_of_one_run_fit_one_circuit() -> None:
    two = Eigenproblems([Eigenproblem("a", SUMS[0]), Eigenproblem("b", PauliSum(3, {"ZZZ": 1.0}))])
    with pytest.raises(DataError, match=r"a .2 qubits. and b .3 qubits. differ"):
        problems_of(two)
    with pytest.raises(DataError, match="must be real"):
        Eigenproblem("a", PauliSum(1, {"X": 1j}))
    with pytest.raises(DataError, match="list holds no problems"):
        problems_of([])


def test_recipes_may_name_molecules_of_other_sizes() -> None:
    """What a molecule tells is what UCCSD asks for."""
    facts = Molecule("H3+").problems[0].facts
    circuit = uccsd(6, facts["num_electrons"], symmetries=facts["symmetries"])
    assert facts["occupied"] == "110000"
    assert circuit.num_parameters < uccsd(6, 2).num_parameters
