"""Programs with letters and words exchanged are read or refused, and nothing else happens."""

from __future__ import annotations

import contextlib
import random

import pytest

from pdl.errors import DataError
from pdl_quantum.circuits import Circuit
from pdl_quantum.qasm import dumps, loads

WORDS = (
    *"(){}[];,-+/*^=<>&!\"§\x00", "pi", "1e400", "99999999999999999999999", "0", "if", "gate", "ctrl @", "inv @",
    "pow(0.3) @", "pow(-2) @", "measure", "->", "==", "q[0]", "c[0]", "for int i in [0:3] ", "**", "cx", "u3", "h",
    "input float t;", "let a = q;", "//", "/*", "reset", "barrier", "gphase", "sqrt(-1)", "true", "qubit", "array",
    "def",
)  # fmt: skip


def changed(text: str, rng: random.Random) -> str:
    for _ in range(rng.randint(1, 4)):
        at, to = rng.randrange(len(text)), rng.randrange(len(text))
        how = rng.random()
        if how < 0.4:
            text = text[:at] + rng.choice(WORDS) + text[at + (how < 0.1) :]
        elif how < 0.7:
            text = text[:at] + text[at + rng.randint(1, 6) :]
        else:
            text = text[:at] + text[to : to + 20] + text[at:]
    return text


@pytest.mark.parametrize("version", [2, 3])
def test_changed_programs(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    if version == 3:
        pytest.importorskip("openqasm3", reason="OpenQASM 3 is read with the package openqasm3")
    monkeypatch.setattr("pdl_quantum.qasm.program.MOST_GATES", 5000)
    circuit = Circuit(3, 2).u(0.1, 0.2, 0.3, 0).ccx(0, 1, 2).pauli(0.4, "XYZ").cswap(0, 1, 2).rzx(0.2, 0, 1)
    circuit.barrier().measure(0, 0).reset(1).when({0: 1, 1: 0}, lambda c: c.x(2))
    text, rng, read = dumps(circuit, version=2 if version == 2 else 3), random.Random(version), 0
    for _ in range(300 if version == 2 else 120):
        with contextlib.suppress(DataError):
            read += loads(changed(text, rng)).num_qubits > 0
    assert read > 0
