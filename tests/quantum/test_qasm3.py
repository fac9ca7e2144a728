"""OpenQASM 3: what is written is read, to the common phase; modifiers, loops and conditions; faults with their line."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from pdl import config
from pdl.errors import DataError, PackageError
from pdl_quantum.circuits import Circuit, Parameter, PauliSum
from pdl_quantum.qasm import dumps, loads
from tests.quantum.circuits.reference import random_circuit

pytest.importorskip("openqasm3", reason="OpenQASM 3 is read with the package openqasm3")
Array = np.ndarray
HEAD = 'OPENQASM 3.0;\ninclude "stdgates.inc";\n'


def matrix(body: str, qubits: int = 1) -> Array:
    return loads(f"{HEAD}qubit[{qubits}] q;\n{body}").matrix()


def power(unitary: Array, k: float) -> Array:
    values, vectors = np.linalg.eig(unitary)
    angles = np.angle(values)
    angles[angles < -np.pi + 1e-9] = np.pi
    return vectors @ np.diag(np.exp(1j * k * angles)) @ np.linalg.inv(vectors)


@pytest.mark.parametrize("seed", range(16))
def test_random_circuits(seed: int) -> None:
    """With their parameters as inputs, and with values; the common phase is kept."""
    rng = np.random.default_rng(seed)
    circuit, values = random_circuit(rng, int(rng.integers(1, 6)), 20), rng.uniform(-4, 4, 6)
    read = loads(dumps(circuit))
    assert read.parameters.items() <= circuit.parameters.items()
    given = {"theta": values} if read.parameters else None
    np.testing.assert_allclose(read.matrix(given), circuit.matrix(values), atol=1e-12)
    np.testing.assert_allclose(loads(dumps(circuit, values)).matrix(), circuit.matrix(values), atol=1e-12)


def test_text() -> None:
    theta = Parameter("theta", (2, 3))
    circuit = Circuit(3, 2)
    circuit.parameter("theta", (2, 3))
    circuit.rx(theta[1, 2] / -2 + 0.5, 0).u("pi", 0.1, np.pi / 2, 1).controlled([0, 1], Circuit(3).z(2), [0, 1])
    circuit.pauli(0.3, "I", 0).sxdg(1).barrier(0, 2).measure(0, 1).reset(2).when({1: 1}, lambda c: c.x(0))
    circuit.when({0: 0, 1: 1}, lambda c: c.pauli(0.2, "XYZ").cp(0.1, 0, 1))
    text = dumps(circuit)
    assert text.splitlines() == [
        "OPENQASM 3.0;", 'include "stdgates.inc";',
        "gate u(a, b, c) q0 {", "  p(c) q0;", "  ry(a) q0;", "  p(b) q0;", "}",
        "gate sxdg q0 {", "  inv @ sx q0;", "}",
        "gate pauli_xyz(theta) q0, q1, q2 {", "  h q0;", "  sdg q1;", "  h q1;", "  cx q0, q1;", "  cx q1, q2;",
        "  rz(theta) q2;", "  cx q1, q2;", "  cx q0, q1;", "  h q0;", "  h q1;", "  s q1;", "}",
        "input array[float[64], 2, 3] theta;", "input float[64] pi_;", "qubit[3] q;", "bit[2] c;",
        "rx(-0.5*theta[1, 2] + 0.5) q[0];", "u(pi_, 0.1, pi/2) q[1];", "negctrl @ ctrl @ z q[0], q[1], q[2];",
        "gphase(-0.15);", "sxdg q[1];", "barrier q[0], q[2];", "c[1] = measure q[0];", "reset q[2];",
        "if (c[1] == 1) { x q[0]; }", "if (c == 2) { pauli_xyz(0.2) q[0], q[1], q[2]; }",
        "if (c == 2) { cp(0.1) q[0], q[1]; }",
    ]  # fmt: skip
    assert dumps(loads(text)) == text
    assert loads(text).parameters["theta"].shape == (2, 3)


U = np.array([[0.8, -0.6j], [-0.6j, 0.8]])  # rx
ZYZ = Circuit(1).p(0.3, 0).ry(0.4, 0).p(0.2, 0).matrix()
RX = "rx(2*arccos(0.8)) "


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("gphase(0.3);", np.exp(0.3j) * np.eye(2)),
        ("U(0.4, 0.2, 0.3) q[0];", np.exp(0.2j) * ZYZ),
        ("u3(0.4, 0.2, 0.3) q[0];", np.exp(-0.25j) * ZYZ),
        (f"inv @ {RX} q[0];", U.conj().T),
        (f"pow(3) @ {RX} q[0];", U @ U @ U),
        (f"pow(-2) @ {RX} q[0];", np.linalg.inv(U @ U)),
        (f"pow(0.5) @ {RX} q[0];", power(U, 0.5)),
        ("pow(1/2) @ x q[0];", np.array([[1 + 1j, 1 - 1j], [1 - 1j, 1 + 1j]]) / 2),
        ("pow(0.25) @ z q[0];", np.diag([1, np.exp(0.25j * np.pi)])),
        ("pow(0.5) @ gphase(pi/2);", np.exp(0.25j * np.pi) * np.eye(2)),
        ("pow(0.5) @ rz(5.5*pi) q[0];", power(np.diag(np.exp([-2.75j * np.pi, 2.75j * np.pi])), 0.5)),
        ("inv @ pow(0.5) @ h q[0];", power(np.array([[1, 1], [1, -1]]) / np.sqrt(2), -0.5)),
    ],
)  # fmt: skip
def test_modifiers_of_one_qubit(call: str, expected: Array) -> None:
    np.testing.assert_allclose(matrix(call), expected, atol=1e-12)


def test_controls() -> None:
    one = Circuit(3).controlled([0, 1], Circuit(3).unitary(U, 2), [1, 0]).matrix()
    np.testing.assert_allclose(matrix(f"ctrl @ negctrl @ {RX} q[0], q[1], q[2];", 3), one, atol=1e-12)
    both = Circuit(3).controlled([0, 1], Circuit(3).unitary(U, 2)).matrix()
    np.testing.assert_allclose(matrix(f"ctrl(2) @ {RX} q[0], q[1], q[2];", 3), both, atol=1e-12)
    phases = Circuit(3).controlled([0], Circuit(3).p(0.3, 2)).matrix()
    np.testing.assert_allclose(matrix("ctrl(2) @ gphase(0.3) q[0], q[2];", 3), phases, atol=1e-12)
    np.testing.assert_allclose(matrix("negctrl @ gphase(0.3) q[0];"), np.diag([np.exp(0.3j), 1]), atol=1e-12)
    cubed = np.kron(np.diag([1, 0]), np.eye(2)) + np.kron(np.diag([0, 1]), U @ U @ U)
    np.testing.assert_allclose(matrix(f"pow(3) @ ctrl @ {RX} q[0], q[1];", 2), cubed, atol=1e-12)
    root = power(Circuit(2).swap(0, 1).matrix(), 0.5)
    np.testing.assert_allclose(matrix("pow(0.5) @ swap q[0], q[1];", 2), root, atol=1e-12)


def test_programs() -> None:
    """Definitions with loops, aliases, ranges, constants, broadcasts, conditions with else."""
    read = loads(
        HEAD + "const int n = 3; const float half = 0.5;\ninput angle[32] a; input array[float, 2] w;\n"
        "gate rows(t) x, y { for int k in [1:2] { rx(k*t) x; } ctrl @ gphase(t/2) y; }\n"
        "qubit[n] q; qubit r; bit[2] c; bit d;\nlet tail = q[1:2] ++ r;\nh tail;\nrows(a) q[0], r;\n"
        "for uint i in {0, 2} { ry(w[i/2]*i + half) q[i]; }\nfor int i in [2:-1:1] { cx q[i], q[i-1]; }\n"
        "cz q, r;\nc = measure q[0:1];\nd = measure r;\n"
        "if (c[0] && !d) { x q[-1]; } \nif (c[1]) { y r; } else { z r; }\nif (n == 4) x r;\nif (c == 2) x r;"
    )
    by_hand = Circuit(4, 3)
    by_hand.parameter("a"), by_hand.parameter("w", (2,))
    a, w = by_hand.parameters["a"][()], by_hand.parameters["w"]
    by_hand.h(1, 2, 3).rx(a, 0).rx(2 * a, 0).p(a / 2, 3).ry(0 * w[0] + 0.5, 0).ry(w[1] * 2 + 0.5, 2)
    by_hand.cx(2, 1).cx(1, 0).cz(0, 3).cz(1, 3).cz(2, 3).measure(0).measure(1).measure(3, 2)
    by_hand.when({0: 1, 2: 0}, lambda c: c.x(2)).when({1: 1}, lambda c: c.y(3)).when({1: 0}, lambda c: c.z(3))
    by_hand.when({0: 0, 1: 1}, lambda c: c.x(3))
    assert dumps(read) == dumps(by_hand)


@pytest.mark.parametrize(
    ("body", "line", "match"),
    [
        ("qubit q;\nfoo q;", 4, "there is no gate 'foo'"),
        ("qubit q;\nx q\ny q;", 5, "'y' does not belong here"),
        ("qubit q;\nx §;", 4, "token recognition"),
        ("qubit q;\nwhile (true) { x q; }", 4, "while loop: a circuit cannot hold it"),
        ("qubit q; bit c;\nc = 1;", 4, "classical assignment"),
        ("def f() { }", 3, "subroutine definition"),
        ("qubit q;\ndelay[100ns] q;", 4, "delay instruction"),
        ("qubit[2] q; bit[2] c;\nif (c == 1) { x q[0]; } else { y q[0]; }", 4, "else behind a condition on several"),
        ("qubit[2] q; bit[2] c;\nif (c[0] || c[1]) x q[0];", 4, "known are =="),
        ("qubit q; bit c;\nif (c) {\n  c = measure q;\n}", 5, "own condition"),
        ("qubit q; bit c;\nfor int i in [0:c] { x q; }", 4, "no value 'c'"),
        ("input float a; input float b; qubit q;\nrx(a + b) q;", 4, "may hold one input"),
        ("input float a; qubit q;\nrx(sin(a)) q;", 4, "not a function of it"),
        ("input float a; qubit q;\npow(0.5) @ ry(a) q;", 4, "only whole powers"),
        ("input int a;", 3, "angles or floats"),
        ("input array[float, 2] a; qubit q;\nrx(a[2]) q;", 4, "has the shape"),
        ("qubit[2] q;\nctrl @ x q[0];", 4, "x takes 0 angles and 1 qubits, not 0 and 0"),
        ("qubit[2] q;\nctrl(3) @ x q[0], q[1];", 4, "3 controls among 2"),
        ("qubit[2] q;\nctrl @ x q[0], q[0];", 4, "stands twice"),
        ("qubit[2] q;\nx q[2];", 4, "q has 2 entries"),
        ("qubit[2] q;\nmeasure q[0];", 4, "names the bits"),
        ("gate g a { g a; }", 3, "no gate 'g'"),
        ("gate g a { rx(2^2) a; }\nqubit q;\ng q;", 5, "exclusive or"),
        ('include "other.inc";', 3, "no file is opened"),
        ("qubit[2] q;\nx $0;", 4, "no qubit"),
        ("qubit q;\nfor int i in [0:9999999] { x q; }", 4, "more than"),
        ("qubit[1e999] q;", 3, "no number"),
        ("qubit q;\npow(100000) @ h q;", 4, "up to 10000"),
    ],
)
def test_faults(body: str, line: int, match: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pdl_quantum.qasm.read3.MOST_STEPS", 1000)
    with pytest.raises(DataError, match=rf"OpenQASM line {line}: .*{match}"):
        loads(HEAD + body)


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(DataError, match="nested too deeply"):
        loads("qubit q; U(" + "(" * 400 + "1" + ")" * 400 + ", 0, 0) q;")


def test_without_the_parser(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openqasm3", None)
    with pytest.raises(PackageError, match=r"pip install 'pdl-quantum\[qasm\]'"):
        loads("OPENQASM 3.0;")
    assert len(loads("OPENQASM 2.0; qreg q[1]; U(0,0,1) q[0];")) == 1


def test_a_config_names_a_file(tmp_path: Path) -> None:
    """A circuit from elsewhere is the ansatz of a model."""
    path = tmp_path / "ansatz.qasm"
    path.write_text(dumps(Circuit(2).ry("t", 0).cx(0, 1)))
    node = {"_target_": "pdl_quantum.Ansatz", "circuit": {"_target_": "pdl_quantum.qasm.load", "path": str(path)}}
    energy = config.build(node | {"initial": [0.6]})([PauliSum(2, {"ZI": 1.0})]).detach().numpy()
    assert energy.item() == pytest.approx(np.cos(0.6))


def test_a_program_of_nothing() -> None:
    with pytest.raises(DataError, match="the OpenQASM program is empty, or cut off"):
        loads("")
