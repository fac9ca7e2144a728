"""How gates are defined that OpenQASM's libraries lack, and how those fall apart that version 2 cannot define."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from pdl_quantum.circuits import Gate
from pdl_quantum.circuits.angles import angle_of
from pdl_quantum.circuits.gates import matrix_of
from pdl_quantum.circuits.lowering import as_gates, primitives_of
from pdl_quantum.qasm.literals import number
from pdl_quantum.qasm.synthesis import synthesise, zyz

SWAP = ("cx q0, q1;", "cx q1, q0;", "cx q0, q1;")
BODIES = {
    "sxdg": ("inv @ sx q0;",), "u": ("p(c) q0;", "ry(a) q0;", "p(b) q0;"),
    "iswap": ("s q0;", "s q1;", "h q0;", "cx q0, q1;", "cx q1, q0;", "h q1;"),
    "iswapdg": ("h q1;", "cx q1, q0;", "cx q0, q1;", "h q0;", "sdg q0;", "sdg q1;"),
}  # fmt: skip
BODIES_2 = BODIES | {
    "sx": ("sdg q0;", "h q0;", "sdg q0;"), "sxdg": ("s q0;", "h q0;", "s q0;"), "swap": SWAP,
    "cswap": ("cx q2, q1;", "ccx q0, q1, q2;", "cx q2, q1;"), "csx": ("h q1;", "cu1(pi/2) q0, q1;", "h q1;"),
}  # fmt: skip
WORDS = {"rxx": "XX", "ryy": "YY", "rzz": "ZZ", "rzx": "ZX"}


@dataclass(frozen=True)
class Body:
    """A definition: names of angles, number of qubits q0, q1, ..., and statements."""

    angles: tuple[str, ...]
    qubits: int
    lines: tuple[str, ...]


def body_of(gate: Gate, *, version: int) -> Body:
    """That of a gate without its controls, or in version 2 of a controlled SWAP or SX with them."""
    if gate.kind == "unitary":
        return Body((), len(gate.qubits), _matrix_lines(np.asarray(gate.about), version))
    word = gate.about if gate.kind == "pauli" else WORDS.get(gate.kind)
    if word is not None:
        return Body(("theta",), len(word), _word_lines(word))
    name = "c" * len(gate.controls) + gate.kind if version == 2 else gate.kind
    lines = (BODIES_2 if version == 2 else BODIES)[name]
    qubits = len(gate.qubits) + (len(gate.controls) if version == 2 else 0)
    return Body(("a", "b", "c") if gate.kind == "u" else (), qubits, lines)  # some readers sort them by name


def _word_lines(word: str) -> tuple[str, ...]:
    """exp(-i theta/2 P): basis changes and a chain of CX around a rotation of the last qubit."""
    there = [(k, letter) for k, letter in enumerate(word) if letter != "I"]
    before = [line for k, letter in there for line in _basis(k, letter)]
    after = [line for k, letter in there for line in _basis(k, letter, back=True)]
    chain = [f"cx q{a}, q{b};" for (a, _), (b, _) in pairwise(there)]
    return (*before, *chain, f"rz(theta) q{there[-1][0]};", *reversed(chain), *after)


def _basis(k: int, letter: str, *, back: bool = False) -> list[str]:
    if letter == "Y":
        return [f"h q{k};", f"s q{k};"] if back else [f"sdg q{k};", f"h q{k};"]
    return [f"h q{k};"] if letter == "X" else []


def _matrix_lines(matrix: np.ndarray, version: int) -> tuple[str, ...]:
    """A matrix by rotations and CX; in version 3 with its common phase, and by our own u: of the built-in U some
    readers leave out the phase that it has there."""
    lines, phase = [], 0.0
    for gate in synthesise(matrix).gates:
        offsets = [angle.offset for angle in gate.angles]
        if gate.kind == "pauli":  # the phase
            phase -= offsets[0] / 2
            continue
        name = "cx" if gate.controls else {"u": "u" if version == 3 else "u3"}.get(gate.kind, gate.kind)
        angles = f"({', '.join(map(number, offsets))})" if offsets else ""
        lines.append(f"{name}{angles} {', '.join(f'q{q}' for q in gate.touched)};")
    return (*lines, f"gphase({number(phase)});") if version == 3 and phase else tuple(lines)


def falls_into(gate: Gate) -> Sequence[Gate]:
    """A gate with controls, its angles numbers, as gates of which each is nearer to what version 2 can say."""
    if 0 in gate.values:
        flips = [Gate("x", (q,)) for q, value in zip(gate.controls, gate.values, strict=True) if not value]
        return [*flips, replace(gate, values=(1,) * len(gate.controls)), *flips]
    if gate.kind == "x":
        h = Gate("h", gate.qubits)
        return [h, replace(gate, kind="p", angles=(angle_of(np.pi),)), h]
    if gate.kind == "p":
        *rest, last = gate.controls
        flip = Gate("x", (last,), (), tuple(rest), (1,) * len(rest))
        half = replace(gate, angles=(gate.angles[0] / 2,), controls=(last,), values=(1,))
        back = replace(half, angles=(-half.angles[0],))
        return [half, flip, back, flip, replace(half, controls=tuple(rest), values=(1,) * len(rest))]
    if gate.kind == "unitary" and len(gate.qubits) == 1:
        phase, *turns = zyz(np.asarray(gate.about))
        u = replace(gate, kind="u", angles=tuple(angle_of(turn) for turn in turns), about=None)
        *rest, last = gate.controls
        return [u, Gate("p", (last,), (angle_of(phase),), tuple(rest), (1,) * len(rest))]
    if gate.kind == "unitary":
        return [Gate("unitary", gate.touched, about=matrix_of(gate, ()))]
    return as_gates(primitives_of(gate))
