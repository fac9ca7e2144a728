"""The gates: their matrices, and how they fall into what the engine applies.

Matrices are those of OpenQASM 3's standard library. The first qubit of a gate is the most significant one of its
matrix' index: cx's is diag(1, X).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from pdl.errors import UsageError
from pdl_quantum.circuits.angles import Angle

Array = np.ndarray
R = 0.5**0.5
PI = float(np.pi)


# -- what the engine knows ---------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Turn:
    """A rotation of one qubit, exp(-i angle/2 sigma) about `axis` x, y or z; or of the phase of |1>, exp(i angle): axis
    "p"."""

    qubit: int
    axis: str
    angle: Angle


@dataclass(frozen=True, eq=False)
class Fixed:
    """A one-qubit gate without parameters, by its matrix."""

    qubit: int
    matrix: Array


@dataclass(frozen=True)
class Flip:
    """X where the controls have these values."""

    qubit: int
    controls: tuple[int, ...] = ()
    values: tuple[int, ...] = ()


@dataclass(frozen=True)
class Phase:
    """exp(i angle) where all of the qubits (two or more, or none: everywhere) have these values."""

    qubits: tuple[int, ...]
    angle: Angle
    values: tuple[int, ...] = ()


@dataclass(frozen=True)
class Parity:
    """exp(-i angle/2 Z...Z)."""

    qubits: tuple[int, ...]
    angle: Angle


@dataclass(frozen=True, eq=False)
class Dense:
    """A unitary matrix of up to four qubits, the first the most significant, where the controls have their values."""

    qubits: tuple[int, ...]
    matrix: Array
    controls: tuple[int, ...] = ()
    values: tuple[int, ...] = ()


Primitive = Turn | Fixed | Flip | Phase | Parity | Dense


# -- the gates ---------------------------------------------------------------------------------------------------------
@dataclass(frozen=True, eq=False)
class Gate:
    """One gate of a circuit, or one of its `INSTRUCTIONS`.

    kind      its name in `KINDS`, "unitary", "pauli", or in `INSTRUCTIONS`
    qubits    those it acts on, controls not counted;    angles  of its kind
    controls  qubits that must have the `values` for it to act
    about     the matrix of "unitary", the Pauli word of "pauli", the `Channel` of "channel", the confusion matrix of
              "measure" or None
    bits      classical bits that it writes;    condition  (bit, value) of those that must have a value for it to act
    """

    kind: str
    qubits: tuple[int, ...]
    angles: tuple[Angle, ...] = ()
    controls: tuple[int, ...] = ()
    values: tuple[int, ...] = ()
    about: Any = field(default=None)
    bits: tuple[int, ...] = ()
    condition: tuple[tuple[int, int], ...] = ()

    @property
    def touched(self) -> tuple[int, ...]:
        """All qubits, controls first."""
        return (*self.controls, *self.qubits)

    @property
    def is_unitary(self) -> bool:
        """Whether it is a matrix on states; a barrier is, the identity."""
        return self.kind not in ("measure", "reset", "channel") and not self.condition


INSTRUCTIONS = ("measure", "reset", "channel", "barrier")
"""Kinds that are no gates."""


def check_unitary(gate: Gate, what: str) -> None:
    """UsageError where a gate is no matrix on states."""
    if not gate.is_unitary:
        found = f"a {gate.kind} on a condition" if gate.condition else f"a {gate.kind}"
        raise UsageError(f"{what}: the circuit has {found}, and this is for gates alone; `run` plays such a circuit "
                         "shot by shot, `density` gives its mixed state")  # fmt: skip


@dataclass(frozen=True)
class Kind:
    """What a name means.

    matrix   its matrix from its angles;    lower  (qubits, angles) -> primitives
    """

    qubits: int
    angles: int
    matrix: Callable[..., Array]
    lower: Callable[[Sequence[int], Sequence[Angle]], list[Primitive]]
    inverse: Callable[[Sequence[Angle]], tuple[str, Sequence[Angle]]]
    label: str


X = np.array([[0, 1], [1, 0]], complex)
Y = np.array([[0, -1j], [1j, 0]])
Z = np.diag([1, -1]).astype(complex)
H = np.array([[R, R], [R, -R]], complex)
SX = np.array([[1 + 1j, 1 - 1j], [1 - 1j, 1 + 1j]]) / 2
PAULIS = {"I": np.eye(2, dtype=complex), "X": X, "Y": Y, "Z": Z}


def rx(t: float) -> Array:
    """exp(-i t/2 X)."""
    return np.array([[np.cos(t / 2), -1j * np.sin(t / 2)], [-1j * np.sin(t / 2), np.cos(t / 2)]])


def ry(t: float) -> Array:
    """exp(-i t/2 Y)."""
    return np.array([[np.cos(t / 2), -np.sin(t / 2)], [np.sin(t / 2), np.cos(t / 2)]], complex)


def rz(t: float) -> Array:
    """exp(-i t/2 Z)."""
    return np.diag([np.exp(-0.5j * t), np.exp(0.5j * t)])


def p(t: float) -> Array:
    """diag(1, exp(i t))."""
    return np.diag([1, np.exp(1j * t)])


def u(theta: float, phi: float, lam: float) -> Array:
    """OpenQASM's U: exp(i (phi + lam)/2) Rz(phi) Ry(theta) Rz(lam)."""
    c, s = np.cos(theta / 2), np.sin(theta / 2)
    return np.array([[c, -np.exp(1j * lam) * s], [np.exp(1j * phi) * s, np.exp(1j * (phi + lam)) * c]])


def rotation(word: str, t: float) -> Array:
    """exp(-i t/2 P) for a product P of Pauli matrices."""
    product = np.eye(1)
    for letter in word:
        product = np.kron(product, PAULIS[letter])
    made: Array = np.cos(t / 2) * np.eye(len(product)) - 1j * np.sin(t / 2) * product
    return made


def _constant(matrix: Array) -> Callable[[], Array]:
    return lambda: matrix


def _number(value: float) -> Angle:
    return Angle(None, 0, 1.0, value)


def word_primitives(word: str, qubits: Sequence[int], angle: Angle) -> list[Primitive]:
    """exp(-i angle/2 P) as basis changes around a rotation about Z...Z."""
    there = [(letter, q) for letter, q in zip(word, qubits, strict=True) if letter != "I"]
    if not there:
        return [Phase((), angle * -0.5)]
    if len(there) == 1:
        return [Turn(there[0][1], there[0][0].lower(), angle)]
    to, back = {"X": H, "Y": rx(PI / 2), "Z": None}, {"X": H, "Y": rx(-PI / 2), "Z": None}
    before = [Fixed(q, m) for letter, q in there if (m := to[letter]) is not None]
    after = [Fixed(q, m) for letter, q in there if (m := back[letter]) is not None]
    return [*before, Parity(tuple(q for _, q in there), angle), *after]


def _swap(a: int, b: int) -> list[Primitive]:
    return [Flip(b, (a,), (1,)), Flip(a, (b,), (1,)), Flip(b, (a,), (1,))]


ISWAP = np.array([[1, 0, 0, 0], [0, 0, 1j, 0], [0, 1j, 0, 0], [0, 0, 0, 1]])
SWAP = np.array([[1, 0, 0, 0], [0, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 1]], complex)


def _iswap(a: int, b: int) -> list[Primitive]:
    half = _number(PI / 2)  # S on both, then CZ and SWAP: diag(1, i, i, 1) and an exchange
    return [Turn(a, "p", half), Turn(b, "p", half), Phase((a, b), _number(PI)), *_swap(a, b)]


def _plain(matrix: Array, name: str, inverse: str, label: str) -> Kind:
    """A one-qubit gate without angles."""
    diagonal = matrix[0, 1] == 0
    turn = float(np.angle(matrix[1, 1])) if diagonal else 0.0

    def lower(q: Sequence[int], angles: Sequence[Angle]) -> list[Primitive]:
        if diagonal:
            return [Turn(q[0], "p", _number(turn))]
        return [Flip(q[0])] if name == "x" else [Fixed(q[0], matrix)]

    return Kind(1, 0, _constant(matrix), lower, lambda angles: (inverse, ()), label)


def _turning(axis: str) -> Kind:
    matrix = {"rx": rx, "ry": ry, "rz": rz, "p": p}[axis]
    return Kind(
        1, 1, matrix, lambda q, a: [Turn(q[0], axis[-1], a[0])], lambda a: (axis, (-a[0],)),
        "P" if axis == "p" else f"R{axis[-1].upper()}",
    )  # fmt: skip


def _two(word: str) -> Kind:
    return Kind(
        2, 1, lambda t: rotation(word, t), lambda q, a: word_primitives(word, q, a[0]),
        lambda a: (f"r{word.lower()}", (-a[0],)), f"R{word}",
    )  # fmt: skip


KINDS: dict[str, Kind] = {
    "id": Kind(1, 0, _constant(np.eye(2, dtype=complex)), lambda q, a: [], lambda a: ("id", ()), "I"),
    "x": _plain(X, "x", "x", "X"),
    "y": _plain(Y, "y", "y", "Y"),
    "z": _plain(Z, "z", "z", "Z"),
    "h": _plain(H, "h", "h", "H"),
    "s": _plain(np.diag([1, 1j]), "s", "sdg", "S"),
    "sdg": _plain(np.diag([1, -1j]), "sdg", "s", "S†"),
    "t": _plain(p(PI / 4), "t", "tdg", "T"),
    "tdg": _plain(p(-PI / 4), "tdg", "t", "T†"),
    "sx": _plain(SX, "sx", "sxdg", "√X"),
    "sxdg": _plain(SX.conj().T, "sxdg", "sx", "√X†"),
    "rx": _turning("rx"),
    "ry": _turning("ry"),
    "rz": _turning("rz"),
    "p": _turning("p"),
    "u": Kind(
        1, 3, u, lambda q, a: [Turn(q[0], "p", a[2]), Turn(q[0], "y", a[0]), Turn(q[0], "p", a[1])],
        lambda a: ("u", (-a[0], -a[2], -a[1])), "U",
    ),
    "swap": Kind(2, 0, _constant(SWAP), lambda q, a: _swap(*q), lambda a: ("swap", ()), "x"),
    "iswap": Kind(2, 0, _constant(ISWAP), lambda q, a: _iswap(*q), lambda a: ("iswapdg", ()), "iSWAP"),
    "iswapdg": Kind(
        2, 0, _constant(ISWAP.conj()),
        lambda q, a: [*_swap(*q), Turn(q[0], "p", _number(-PI / 2)), Turn(q[1], "p", _number(-PI / 2)),
                      Phase(tuple(q), _number(PI))],
        lambda a: ("iswap", ()), "iSWAP†",
    ),
    "rxx": _two("XX"),
    "ryy": _two("YY"),
    "rzz": _two("ZZ"),
    "rzx": _two("ZX"),
}  # fmt: skip
"""Gates by name, without controls."""

CONTROLLED = {
    "cx": ("x", 1), "cnot": ("x", 1), "cy": ("y", 1), "cz": ("z", 1), "ch": ("h", 1), "csx": ("sx", 1), "cp": ("p", 1),
    "crx": ("rx", 1), "cry": ("ry", 1), "crz": ("rz", 1), "cu3": ("u", 1), "ccx": ("x", 2), "toffoli": ("x", 2),
    "ccz": ("z", 2), "cswap": ("swap", 1), "fredkin": ("swap", 1),
}  # fmt: skip
"""Names of gates with controls: (kind, how many)."""


def matrix_of(gate: Gate, angles: Sequence[float]) -> Array:
    """The unitary matrix of a gate at these angles, over `gate.touched`, the first qubit the most significant."""
    check_unitary(gate, "a matrix")
    if gate.kind == "barrier":
        return np.eye(1 << len(gate.qubits), dtype=complex)
    if gate.kind == "unitary":
        inner = np.asarray(gate.about)
    elif gate.kind == "pauli":
        inner = rotation(gate.about, angles[0])
    else:
        inner = KINDS[gate.kind].matrix(*angles)
    size = len(inner) << len(gate.controls)
    made = np.eye(size, dtype=complex)
    at = int("".join(map(str, gate.values)), 2) if gate.controls else 0
    made[at * len(inner) : (at + 1) * len(inner), at * len(inner) : (at + 1) * len(inner)] = inner
    return made


def inverse_of(gate: Gate) -> Gate:
    """The gate that undoes it."""
    check_unitary(gate, "an inverse")
    if gate.kind == "barrier":
        return gate
    if gate.kind == "unitary":
        return replace(gate, about=np.asarray(gate.about).conj().T)
    if gate.kind == "pauli":
        return replace(gate, angles=(-gate.angles[0],))
    kind, angles = KINDS[gate.kind].inverse(gate.angles)
    return replace(gate, kind=kind, angles=tuple(angles))


# -- falling into primitives -------------------------------------------------------------------------------------------
def lower(gate: Gate) -> list[Primitive]:
    """The primitives of a gate, in the order in which they act."""
    check_unitary(gate, "a state vector")
    if gate.kind == "barrier":
        return []
    if gate.kind == "unitary":
        matrix = np.asarray(gate.about)
        if len(matrix) == 2 and not gate.controls:
            return [Fixed(gate.qubits[0], matrix)]
        return [Dense(gate.qubits, matrix, gate.controls, gate.values)]
    if gate.kind == "pauli":
        inner = word_primitives(gate.about, gate.qubits, gate.angles[0])
    else:
        inner = KINDS[gate.kind].lower(gate.qubits, gate.angles)
    if not gate.controls:
        return inner
    return [each for one in inner for each in _controlled(one, gate.controls, gate.values)]


def _controlled(one: Primitive, controls: tuple[int, ...], values: tuple[int, ...]) -> list[Primitive]:
    """A primitive where the controls have their values, as primitives."""
    if isinstance(one, Flip):
        return [Flip(one.qubit, (*controls, *one.controls), (*values, *one.values))]
    if isinstance(one, Phase):
        return [_phase((*controls, *one.qubits), one.angle, (*values, *(one.values or (1,) * len(one.qubits))))]
    if isinstance(one, Dense):
        return [Dense(one.qubits, one.matrix, (*controls, *one.controls), (*values, *one.values))]
    if isinstance(one, Fixed):
        return [Dense((one.qubit,), one.matrix, controls, values)]
    if isinstance(one, Parity):  # where the controls have other values the parity is of no consequence
        first, *rest = one.qubits
        ladder: list[Primitive] = [Flip(first, (q,), (1,)) for q in rest]
        return [*ladder, *_controlled(Turn(first, "z", one.angle), controls, values), *reversed(ladder)]
    q, half = one.qubit, one.angle / 2
    if one.axis == "p":
        return [_phase((*controls, q), one.angle, (*values, 1))]
    if one.axis == "z":
        return [_phase(controls, -half, values), _phase((*controls, q), one.angle, (*values, 1))]
    flip = Flip(q, controls, values)
    if one.axis == "y":
        return [Turn(q, "y", half), flip, Turn(q, "y", -half), flip]
    return [Fixed(q, H), *_controlled(Turn(q, "z", one.angle), controls, values), Fixed(q, H)]


def _phase(qubits: tuple[int, ...], angle: Angle, values: tuple[int, ...]) -> Primitive:
    if len(qubits) == 1 and values == (1,):
        return Turn(qubits[0], "p", angle)
    return Phase(qubits, angle, values)
