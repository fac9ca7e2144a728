"""What the names of OpenQASM's libraries mean: qelib1.inc (arXiv 1707.03429, and what Qiskit has added to it since),
and stdgates.inc of OpenQASM 3 (arXiv 2104.14722)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pdl_quantum.circuits import Angle, Gate
from pdl_quantum.circuits.angles import angle_of
from pdl_quantum.circuits.gates import CONTROLLED, KINDS

Make = Callable[[Sequence[Any], Sequence[int]], list[Gate]]


@dataclass(frozen=True)
class Meaning:
    """What a name stands for.

    angles, qubits   how many it takes;    make  (angles, qubits) -> gates
    """

    angles: int
    qubits: int
    make: Make


def phase(angle: Any) -> Gate:
    """exp(i angle) everywhere: a gate on no qubit, until `settled` finds it one."""
    return Gate("pauli", (), (angle_of(angle) * -2,), about="")


def _plain(kind: str, controls: int = 0) -> Meaning:
    """A gate of ours, with controls in front."""

    def make(angles: Sequence[Any], q: Sequence[int]) -> list[Gate]:
        values = tuple(angle_of(a) for a in angles)
        return [Gate(kind, tuple(q[controls:]), values, tuple(q[:controls]), (1,) * controls)]

    return Meaning(KINDS[kind].angles, KINDS[kind].qubits + controls, make)


def _turned(*angles: Any) -> tuple[Angle, ...]:
    return tuple(angle_of(a) for a in angles)


def _u(theta: Any, phi: Any, lam: Any, q: Sequence[int]) -> Gate:
    return Gate("u", (q[-1],), _turned(theta, phi, lam), tuple(q[:-1]), (1,) * (len(q) - 1))


def _half(angle: Any) -> Angle:
    return angle_of(angle) / 2


def _cu(a: Sequence[Any], q: Sequence[int]) -> list[Gate]:
    return [Gate("p", (q[0],), _turned(a[3])), _u(a[0], a[1], a[2], q)]


def _u2(a: Sequence[Any], q: Sequence[int]) -> list[Gate]:
    return [_u(np.pi / 2, a[0], a[1], q)]


RCCX = "h2 t2 x12 tdg2 x02 t2 x12 tdg2 h2"
RC3X = "h3 t3 x23 tdg3 h3 x03 t3 x13 tdg3 x03 t3 x13 tdg3 h3 t3 x23 tdg3 h3"


def _relative(words: str, count: int) -> Meaning:
    """A Toffoli gate but for phases (Maslov, arXiv 1508.03273): gates with their qubits, "x02" being CX from 0 to 2."""

    def make(angles: Sequence[Any], q: Sequence[int]) -> list[Gate]:
        made = []
        for word in words.split():
            kind, on = word.rstrip("0123"), [q[int(k)] for k in word.lstrip("hxtdg")]
            made.append(Gate(kind, (on[-1],), (), tuple(on[:-1]), (1,) * (len(on) - 1)))
        return made

    return Meaning(0, count, make)


QELIB: dict[str, Meaning] = {
    **{name: _plain(name) for name in ("x", "y", "z", "h", "s", "sdg", "t", "tdg", "rx", "ry", "rz", "id")},
    "u3": _plain("u"), "u2": Meaning(2, 1, _u2), "u1": _plain("p"), "cx": _plain("x", 1), "cz": _plain("z", 1),
    "cy": _plain("y", 1), "ch": _plain("h", 1), "ccx": _plain("x", 2), "crz": _plain("rz", 1), "cu1": _plain("p", 1),
    "cu3": _plain("u", 1),
}  # fmt: skip
"""qelib1.inc as published. Its U and RZ leave open a common phase, which controls do not see: ours are taken."""

QELIB_SINCE: dict[str, Meaning] = {
    **{name: _plain(name) for name in ("u", "p", "sx", "sxdg", "swap", "rxx", "rzz")},
    "u0": Meaning(1, 1, lambda a, q: [Gate("id", (q[0],))]), "cswap": _plain("swap", 1), "crx": _plain("rx", 1),
    "cry": _plain("ry", 1), "cp": _plain("p", 1), "csx": _plain("sx", 1), "cu": Meaning(4, 2, _cu),
    "c3x": _plain("x", 3), "c4x": _plain("x", 4), "c3sqrtx": _plain("sx", 3),
    "rccx": _relative(RCCX, 3), "rc3x": _relative(RC3X, 4),
}  # fmt: skip
"""Names that Qiskit's qelib1.inc has beside those. A file may define them itself."""

BUILT_IN_2 = {"U": _plain("u"), "CX": _plain("x", 1)}

BUILT_IN_3 = {"U": Meaning(3, 1, lambda a, q: [phase(_half(a[0])), _u(a[0], a[1], a[2], q)])}
"""OpenQASM 3's U is exp(i theta/2) times that of OpenQASM 2."""

STDGATES: dict[str, Meaning] = {
    **{name: _plain(name) for name in ("p", "x", "y", "z", "h", "s", "sdg", "t", "tdg", "sx", "rx", "ry", "rz", "id")},
    "swap": _plain("swap"), "phase": _plain("p"), "u1": _plain("p"), "CX": _plain("x", 1), "cx": _plain("x", 1),
    "cy": _plain("y", 1), "cz": _plain("z", 1), "cp": _plain("p", 1), "cphase": _plain("p", 1), "crx": _plain("rx", 1),
    "cry": _plain("ry", 1), "crz": _plain("rz", 1), "ch": _plain("h", 1), "ccx": _plain("x", 2),
    "cswap": _plain("swap", 1), "cu": Meaning(4, 2, _cu),
    "u2": Meaning(2, 1, lambda a, q: [phase(-_half(a[0])), phase(-_half(a[1])), *_u2(a, q)]),
    "u3": Meaning(3, 1, lambda a, q: [phase(-_half(a[1])), phase(-_half(a[2])), _u(a[0], a[1], a[2], q)]),
}  # fmt: skip


def ours(name: str, angles: int, qubits: int) -> Meaning | None:
    """The gate of ours that has this name and takes as many angles and qubits: one that a file's own definition may
    turn out to be."""
    if name.startswith("pauli_") and set(name[6:]) <= set("ixyz") and len(name) - 6 == qubits and angles == 1:
        word = name[6:].upper()
        return Meaning(1, qubits, lambda a, q: [Gate("pauli", tuple(q), _turned(a[0]), about=word)])
    kind, controls = CONTROLLED.get(name, (name, 0))
    if kind not in KINDS or (KINDS[kind].angles, KINDS[kind].qubits + controls) != (angles, qubits):
        return None
    return _plain(kind, controls)
