"""OpenQASM 2: what is written is read, gates are those of the standard library, faults are told with their line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pdl.errors import DataError, UsageError
from pdl_quantum.circuits import Circuit, depolarizing
from pdl_quantum.qasm import dumps, load, loads
from tests.quantum.circuits.reference import random_circuit

Array = np.ndarray
HEAD = 'OPENQASM 2.0;\ninclude "qelib1.inc";\n'


def distance(a: Array, b: Array) -> float:
    """Of matrices, but for a common phase."""
    phase = np.vdot(b, a)
    return float(np.abs(a - b * phase / abs(phase)).max())


@pytest.mark.parametrize("seed", range(24))
def test_random_circuits(seed: int) -> None:
    rng = np.random.default_rng(seed)
    circuit, values = random_circuit(rng, int(rng.integers(1, 6)), 20), rng.uniform(-4, 4, 6)
    read = loads(dumps(circuit, values, version=2))
    assert distance(circuit.matrix(values), read.matrix()) < 1e-12


def test_text() -> None:
    circuit = Circuit(2, 2).h(0).rx("t", 1).cx(0, 1).iswap(0, 1).barrier().measure(0, 1).reset(0)
    circuit.when({0: 0, 1: 1}, lambda c: c.p(np.pi / 4, 1))
    text = dumps(circuit, {"t": 0.3}, version=2)
    assert text.splitlines() == [
        "OPENQASM 2.0;", 'include "qelib1.inc";', "gate iswap q0, q1 {", "  s q0;", "  s q1;", "  h q0;",
        "  cx q0, q1;", "  cx q1, q0;", "  h q1;", "}", "qreg q[2];", "creg c[2];", "h q[0];", "rx(0.3) q[1];",
        "cx q[0], q[1];", "iswap q[0], q[1];", "barrier q[0], q[1];", "measure q[0] -> c[1];", "reset q[0];",
        "if (c == 2) u1(pi/4) q[1];",
    ]  # fmt: skip
    assert dumps(loads(text), version=2) == text


# what the gates are by their matrices, after arXiv 1707.03429 and Qiskit's library
U3 = np.array(
    [[np.cos(0.15), -np.exp(0.3j) * np.sin(0.15)], [np.exp(0.2j) * np.sin(0.15), np.exp(0.5j) * np.cos(0.15)]]
)


def controlled(matrix: Array, controls: int = 1) -> Array:
    made = np.eye(len(matrix) << controls, dtype=complex)
    made[-len(matrix) :, -len(matrix) :] = matrix
    return made


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("u3(0.3,0.2,0.3) q[0]", U3),
        ("U(0.3,0.2,0.3) q[0]", U3),
        ("u2(0.2,0.3) q[0]", np.array([[1, -np.exp(0.3j)], [np.exp(0.2j), np.exp(0.5j)]]) / np.sqrt(2)),
        ("u1(0.3) q[0]", np.diag([1, np.exp(0.3j)])),
        ("cu1(0.3) q[0],q[1]", np.diag([1, 1, 1, np.exp(0.3j)])),
        ("cu3(0.3,0.2,0.3) q[0],q[1]", controlled(U3)),
        ("cu(0.3,0.2,0.3,0.7) q[0],q[1]", controlled(U3 * np.exp(0.7j))),
        ("crz(0.3) q[0],q[1]", np.diag([1, 1, np.exp(-0.15j), np.exp(0.15j)])),
        ("rzz(0.3) q[0],q[1]", np.diag(np.exp(0.15j * np.array([-1, 1, 1, -1])))),
        ("csx q[0],q[1]", controlled(np.array([[1 + 1j, 1 - 1j], [1 - 1j, 1 + 1j]]) / 2)),
        ("CX q[1],q[0]", np.eye(4)[[0, 3, 2, 1]]),
        ("c3x q[0],q[1],q[2],q[3]", controlled(np.array([[0, 1], [1, 0]]), 3)),
        ("u0(1) q[0]", np.eye(2)),
    ],
)
def test_library(call: str, expected: Array) -> None:
    n = len(expected).bit_length() - 1
    assert distance(loads(f"{HEAD}qreg q[{n}];\n{call};").matrix(), expected) < 1e-12


@pytest.mark.parametrize(
    ("expression", "value"),
    [("pi/2", np.pi / 2), ("-pi^2/4", -(np.pi**2) / 4), ("2^3^0.5", 2 ** (3**0.5)),
     ("1/2+.5e1*sin(0.3)", 0.5 + 5 * np.sin(0.3)), ("ln(exp(2)) - sqrt(2)*(-cos(1))", 2 + np.sqrt(2) * np.cos(1)),
     ("2-3-4", -5), ("--2", 2), ("2*-3", -6)],
)  # fmt: skip
def test_expressions(expression: str, value: float) -> None:
    gate = loads(f"{HEAD}qreg q[1];\nrx({expression}) q[0];").gates[0]
    assert gate.angles[0].offset == pytest.approx(value, abs=1e-14)


def test_definitions_and_registers() -> None:
    """Gates inside gates, registers side by side, bits counted on."""
    read = loads(
        HEAD + "gate turn(a,b) x,y { rx(a/2+b) x; barrier x,y; cx x,y; }\n"
        "gate twice(c) x,y { turn(c,-c) x,y; turn(0,pi) y,x; }\n"
        "qreg a[2]; qreg b[2]; creg c[1]; creg d[2];\nh a; cx a,b; twice(0.4) a[1],b[0];\nmeasure b -> d;\n"
        "if (d == 2) x a;"
    )
    by_hand = Circuit(4, 3).h(0, 1).cx(0, 2).cx(1, 3).rx(-0.2, 1).cx(1, 2).rx(np.pi, 2).cx(2, 1)
    by_hand.measure(2, 1).measure(3, 2).when({1: 0, 2: 1}, lambda c: c.x(0, 1))
    assert dumps(read) == dumps(by_hand)


def test_a_definition_that_is_a_gate_of_ours_is_that_gate() -> None:
    text = HEAD + "gate rzx(t) a,b {{ h b; cx a,b; rz({0}) b; cx a,b; h b; }}\nqreg q[2];\nrzx(0.3) q[0],q[1];"
    assert loads(text.format("t")).count() == {"rzx": 1}
    assert loads(text.format("-t")).count() == {"cx": 2, "h": 2, "rz": 1}


@pytest.mark.parametrize(
    ("body", "line", "match"),
    [
        ("qreg q[1];\nfoo q[0];", 4, "there is no gate 'foo'"),
        ("qreg q[2];\ncx q[0],\nq[2];", 4, "q has 2 entries"),
        ("qreg q[2];\nrx q[0];", 4, "takes 1 angles"),
        ("qreg q[2];\nrx(pie) q[0];", 4, "no value 'pie'; did you mean 'pi'"),
        ("qreg q[2];\n\nrx(1/0) q[0];", 5, "1 / 0 has no value"),
        ("qreg q[2];\nrx(1e999) q[0];", 4, "no number"),
        ("qreg q[2];\nrx(2^3^4^5^6) q[0];", 4, "has no value"),
        ("qreg q[2];\nrx(__import__('os')) q[0];", 4, "has no meaning"),
        ("qreg q[2];\nrx(eval(1)) q[0];", 4, "no function 'eval'"),
        ("qreg q[2];\ncx q[0],q[0];", 4, "stands twice"),
        ("qreg q[2]; qreg r[3];\ncx q,r;", 4, "registers of 2 and 3"),
        ("qreg q[2]; creg c[1];\nmeasure q -> c;", 4, "2 qubits are measured into 1"),
        ("qreg q[1]; creg c[1];\nif (c == 2) x q[0];", 4, "never 2"),
        ("qreg q[1]; creg c[1];\nif (c == 1) measure q[0] -> c[0];", 4, "own condition"),
        ("gate g a { g a; }\nqreg q[1];", 3, "no gate 'g'"),
        ("gate h a { x a; }", 3, "defined twice"),
        ("opaque o(t) a;\nqreg q[1];\no(1) q[0];", 5, "opaque"),
        ("qreg q[1];\nqreg q[2];", 4, "declared twice"),
        ("qreg q[99999999];", 3, "1 to 4096 qubits"),
        ('include "other.inc";', 3, "no file is opened"),
        ("qreg q[1]\nx q[0];", 4, "expected ';', not 'x'"),
        ("qreg q[1];\nrx(" + "(" * 5000 + "1" + ")" * 5000 + ") q[0];", 4, "50 brackets"),
        ("qreg q[1];\nrx(2" + "^2" * 5000 + ") q[0];", 4, "50 powers"),
    ],
)
def test_faults(body: str, line: int, match: str) -> None:
    with pytest.raises(DataError, match=f"OpenQASM line {line}: .*{match}"):
        loads(HEAD + body)


def test_definitions_that_double_do_not_grow_forever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pdl_quantum.qasm.program.MOST_GATES", 5000)
    chain = "gate g0 a { x a; x a; }\n" + "".join(f"gate g{k} a {{ g{k - 1} a; g{k - 1} a; }}\n" for k in range(1, 60))
    with pytest.raises(DataError, match="more than 5,000 gates"):
        loads(f"{HEAD}{chain}qreg q[1];\ng59 q[0];")
    line = "gate g0 a { x a; }\n" + "".join(f"gate g{k} a {{ g{k - 1} a; }}\n" for k in range(1, 2000))
    with pytest.raises(DataError, match="line 2004: more than 100 definitions"):
        loads(f"{HEAD}{line}qreg q[1];\ng1999 q[0];")


def test_what_version_2_cannot_say() -> None:
    with pytest.raises(UsageError, match="no inputs: give values for t"):
        dumps(Circuit(1).rx("t", 0), version=2)
    with pytest.raises(UsageError, match="compares a whole register"):
        dumps(Circuit(1, 2).when({0: 1}, lambda c: c.x(0)), version=2)
    with pytest.raises(UsageError, match="the channel depolarizing"):
        dumps(Circuit(1).channel(depolarizing(0.1), 0), version=2)


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "bell.qasm"
    path.write_text(dumps(Circuit(2).h(0).cx(0, 1), version=2))
    assert load(path).count() == {"cx": 1, "h": 1}
    path.write_text(HEAD)
    with pytest.raises(DataError, match=r"bell\.qasm: OpenQASM line 2: the program declares no qubits"):
        load(path)
    with pytest.raises(DataError, match=r"none\.qasm cannot be read"):
        load(tmp_path / "none.qasm")
