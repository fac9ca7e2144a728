"""Where gates stand in a drawing: columns as tight as lines that cross nothing allow, and the symbols on each wire."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from pdl_quantum.circuits.circuit import Circuit
from pdl_quantum.circuits.gates import Gate
from pdl_quantum.drawing.labels import Labels, title

FAMILIES = dict.fromkeys(("x", "y", "z", "id"), "pauli") | dict.fromkeys(
    ("s", "sdg", "t", "tdg", "p", "sx", "sxdg"), "phase"
) | dict.fromkeys(("rx", "ry", "rz", "u"), "rotation") | dict.fromkeys(
    ("rxx", "ryy", "rzz", "rzx", "pauli"), "word"
) | dict.fromkeys(("swap", "iswap", "iswapdg"), "swap") | {
    "h": "hadamard", "unitary": "matrix", "measure": "readout", "reset": "readout", "channel": "noise",
    "barrier": "barrier",
}  # fmt: skip
"""The kinds of gates that a picture gives one colour."""


@dataclass(frozen=True)
class Symbol:
    """What stands on one wire, or from one wire to another.

    form      "box", "meter" (a box, too), "dot" (control at 1), "ring" (control at 0), "plus" (X with controls),
              "cross" (of a swap), "barrier"; on the classical wire "write" (of a measurement) or "when" (a condition)
    wire      its wire, the classical one behind the last qubit's;    last  the last one of a box that covers several
    title     of a box;    angle  what stands below or behind it
    ports     of a box over several wires: which of the gate's qubits each is
    """

    form: str
    wire: int
    title: str = ""
    angle: str = ""
    last: int = -1
    ports: tuple[int, ...] = ()

    @property
    def end(self) -> int:
        """The last wire that it covers."""
        return max(self.wire, self.last)


@dataclass(frozen=True, eq=False)
class Mark:
    """A gate in its column: symbols joined by a line from the first wire to the last."""

    gate: Gate
    family: str
    symbols: tuple[Symbol, ...]
    column: int

    @property
    def low(self) -> int:
        """The uppermost wire."""
        return min(s.wire for s in self.symbols)

    @property
    def high(self) -> int:
        """The lowest wire."""
        return max(s.end for s in self.symbols)

    @property
    def wires(self) -> Iterable[int]:
        """Those on which nothing else stands in its column."""
        return self.gate.qubits if self.gate.kind == "barrier" else range(self.low, self.high + 1)


def marks(circuit: Circuit, labels: Labels) -> Iterator[Mark]:
    """Every gate, in the first column in which all wires from its first to its last are free."""
    busy = [0] * (circuit.num_qubits + 1)
    for gate in circuit.gates:
        symbols = tuple(symbols_of(gate, labels))
        made = Mark(gate, FAMILIES[gate.kind], symbols, 0)
        column = max(busy[wire] for wire in made.wires)
        for wire in made.wires:
            busy[wire] = column + 1
        yield Mark(gate, made.family, symbols, column)


def columns(circuit: Circuit, labels: Labels) -> list[list[Mark]]:
    """The marks, column by column."""
    ordered = sorted(marks(circuit, labels), key=lambda mark: mark.column)
    return [list(group) for _, group in groupby(ordered, key=lambda mark: mark.column)]


def folded(widths: Sequence[float], room: float) -> Iterator[range]:
    """Columns of these widths in rows of at most this room, one column at least."""
    first, used = 0, 0.0
    for place, width in enumerate(widths):
        if place > first and used + width > room:
            yield range(first, place)
            first, used = place, 0.0
        used += width
    yield range(first, len(widths))


def symbols_of(gate: Gate, labels: Labels) -> Iterable[Symbol]:
    """The symbols of a gate."""
    classical = labels.circuit.num_qubits
    yield from _on_qubits(gate, labels)
    if gate.bits:
        yield Symbol("write", classical, ",".join(map(str, gate.bits)))
    if gate.condition:
        yield Symbol("when", classical, ",".join(f"{bit}={value}" for bit, value in gate.condition))


def _on_qubits(gate: Gate, labels: Labels) -> Iterable[Symbol]:
    for qubit, value in zip(gate.controls, gate.values, strict=True):
        yield Symbol("dot" if value else "ring", qubit)
    angle = labels.angles(gate)
    if gate.kind == "x" and gate.controls:
        yield Symbol("plus", gate.qubits[0])
    elif gate.kind == "z" and gate.controls:
        yield Symbol("dot", gate.qubits[0])
    elif gate.kind == "swap":
        yield from (Symbol("cross", qubit) for qubit in gate.qubits)
    elif gate.kind == "barrier":
        yield from (Symbol("barrier", qubit) for qubit in sorted(gate.qubits))
    elif FAMILIES[gate.kind] == "word":
        word = gate.about if gate.kind == "pauli" else gate.kind[1:].upper()
        yield from _letters(word, gate.qubits, angle)
    elif len(gate.qubits) == 1:
        yield Symbol("meter" if gate.kind == "measure" else "box", gate.qubits[0], title(gate), angle)
    else:
        yield from _blocks(gate, angle)


def _letters(word: str, qubits: Sequence[int], angle: str) -> Iterable[Symbol]:
    """A rotation about a product of Pauli matrices: a box with its letter on each wire, the angle on the first."""
    there = sorted((q, letter) for q, letter in zip(qubits, word, strict=True) if letter != "I")
    there = there or [(qubits[0], "I")]
    for place, (qubit, letter) in enumerate(there):
        yield Symbol("box", qubit, letter, "" if place else angle)


def _blocks(gate: Gate, angle: str) -> Iterable[Symbol]:
    """A gate of several qubits: a box over all of them, or one over each row of neighbours."""
    wires = sorted(gate.qubits)
    ordered = wires == list(gate.qubits) or gate.kind not in ("unitary", "channel")
    for _, group in groupby(enumerate(wires), key=lambda pair: pair[1] - pair[0]):
        own = [wire for _, wire in group]
        ports = () if ordered and len(own) == len(wires) else tuple(gate.qubits.index(wire) for wire in own)
        yield Symbol("box", own[0], title(gate), angle, own[-1], ports)
