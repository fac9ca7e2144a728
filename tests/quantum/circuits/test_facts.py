"""What a circuit says of itself: depth, counts, its matrix, its drawing."""

from __future__ import annotations

import numpy as np
import pytest

from pdl.errors import UsageError
from pdl_quantum.circuits import Circuit
from tests.quantum.circuits.reference import dense_state, random_circuit


def layered() -> Circuit:
    return Circuit(3, 1).h(0).cx(0, 1).h(2).barrier().rz("t", 0).ccx(0, 1, 2).cz(0, 1).measure(2, 0)


def test_summary() -> None:
    assert layered().summary() == {
        "qubits": 3, "bits": 1, "parameters": 1, "gates": 7, "two_qubit_gates": 3, "depth": 5, "two_qubit_depth": 3,
        "counts": {"ccx": 1, "cx": 1, "cz": 1, "h": 2, "measure": 1, "rz": 1},
    }  # fmt: skip
    assert Circuit(2).summary()["depth"] == Circuit(2).barrier().barrier().depth == 0


def test_a_barrier_holds_back_and_takes_no_layer() -> None:
    assert Circuit(2).h(0).barrier().h(1).depth == 2
    assert Circuit(2).h(0).h(1).depth == 1
    assert Circuit(3).h(0).cx(0, 1).barrier(0).cx(1, 2).two_qubit_depth == 2


@pytest.mark.parametrize("seed", range(4))
def test_matrix(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 6))
    circuit, values = random_circuit(rng, n, 15), rng.uniform(-3, 3, 6)
    made = np.stack([dense_state(circuit, values, column) for column in np.eye(1 << n, dtype=complex)], axis=1)
    np.testing.assert_allclose(circuit.matrix(values), made, atol=1e-12)


def test_matrix_wants_few_qubits_one_row_and_gates() -> None:
    with pytest.raises(UsageError, match="up to 12"):
        Circuit(13).matrix()
    with pytest.raises(UsageError, match="a batch of 2"):
        Circuit(1).rx("t", 0).matrix([[0.1], [0.2]])
    with pytest.raises(UsageError, match="has a measure"):
        Circuit(1).measure(0).matrix()


def test_str_draws() -> None:
    assert str(Circuit(2).h(0).cx(0, 1)) == "    ┌───┐\nq0 ─┤ H ├─●─\n    └───┘ │\nq1 ───────⊕─"
    assert "RX(0.5)" in Circuit(1).rx("t", 0).draw({"t": 0.5})
