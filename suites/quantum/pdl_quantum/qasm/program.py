"""A program while it is read: registers, gates by name, and the circuit that grows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from pdl.errors import DataError
from pdl.suites import suggest
from pdl_quantum.circuits import Circuit, Gate, Parameter
from pdl_quantum.qasm.modifiers import settled
from pdl_quantum.qasm.names import Meaning, ours
from pdl_quantum.qasm.values import Value

MOST_GATES = 500_000
MOST_NESTED = 100
"""Definitions that call one another."""
MOST_BITS = 4096
"""Qubits of all registers, and likewise classical bits."""
SAMPLES = ((0.37, -1.21, 2.03), (-2.4, 0.83, 1.17))
MOST_COMPARED = 6  # qubits of a definition that is compared with a gate of ours

Condition = tuple[tuple[int, int], ...]


class Program:
    """What a program has said so far.

    names    gates that may be called;    own  those that the program defined;    free  names that it may define anew
    strict   whether a definition is told from a gate of ours by its common phase, too
    """

    def __init__(self, names: Mapping[str, Meaning], *, strict: bool) -> None:
        self.names, self.strict = dict(names), strict
        self.own: set[str] = set()
        self.free: set[str] = set()
        self.opaque: set[str] = set()
        self.size = {"qubit": 0, "bit": 0}
        self.qubits: dict[str, list[int]] = {}
        self.bits: dict[str, list[int]] = {}
        self.parameters: dict[str, Parameter] = {}
        self.gates: list[Gate] = []
        self.made, self.nested = 0, 0

    # -- declarations --------------------------------------------------------------------------------------------------
    def register(self, kind: str, name: str, size: int) -> None:
        """A register of qubits or bits, behind those that are there."""
        table = self.qubits if kind == "qubit" else self.bits
        if name in self.qubits or name in self.bits or name in self.parameters:
            raise DataError(f"{name} is declared twice")
        first = self.size[kind]
        if size < 1 or first + size > MOST_BITS:
            raise DataError(f"{name} has {size} {kind}s; registers hold 1 to {MOST_BITS} {kind}s in all")
        table[name] = list(range(first, first + size))
        self.size[kind] = first + size

    def alias(self, name: str, qubits: Sequence[int]) -> None:
        """Another name for qubits that are there."""
        self.qubits[name] = list(qubits)

    def library(self, names: Mapping[str, Meaning], free: Mapping[str, Meaning]) -> None:
        """The gates of an included file; those of `free` the program may define itself."""
        for name, meaning in {**names, **free}.items():
            if name not in self.own:
                self.names[name] = meaning
        self.free |= set(free)

    def define(self, name: str, meaning: Meaning) -> None:
        """A gate of the program's own. Where it is a gate of ours by its name and its matrix, it is taken for that."""
        if name in self.own or (name in self.names and name not in self.free):
            raise DataError(f"gate {name} is defined twice")
        known = ours(name, meaning.angles, meaning.qubits)
        same = known is not None and meaning.qubits <= MOST_COMPARED and self._same(known, meaning)
        self.names[name] = known if same and known is not None else meaning
        self.own.add(name)

    def _same(self, a: Meaning, b: Meaning) -> bool:
        before = self.made
        for sample in SAMPLES:
            x, y = (matrix(each.make(sample[: each.angles], range(each.qubits)), each.qubits) for each in (a, b))
            phase = 1.0 if self.strict else np.vdot(y, x)
            if np.abs(x - y * (phase / abs(phase))).max() > 1e-12:
                self.made = before
                return False
        self.made = before
        return True

    # -- statements ----------------------------------------------------------------------------------------------------
    def fits(self, name: str, angles: int, qubits: Sequence[Any]) -> Meaning:
        """What a gate of this name means; DataError where there is none, or none for these."""
        if name in self.opaque:
            raise DataError(f"gate {name} is opaque: the program does not say what it does")
        if name not in self.names:
            raise DataError(f"there is no gate {name!r} here{suggest(name, self.names)}")
        meaning = self.names[name]
        if (angles, len(qubits)) != (meaning.angles, meaning.qubits):
            raise DataError(f"{name} takes {meaning.angles} angles and {meaning.qubits} qubits, not {angles} and "
                            f"{len(qubits)}")  # fmt: skip
        if len(set(qubits)) < len(qubits):
            raise DataError(f"{name}: a qubit stands twice")
        return meaning

    def call(self, name: str, angles: Sequence[Value], qubits: Sequence[int]) -> list[Gate]:
        """The gates of a call on single qubits."""
        meaning = self.fits(name, len(angles), qubits)
        if self.nested == MOST_NESTED:
            raise DataError(f"more than {MOST_NESTED} definitions that call one another")
        self.nested += 1
        gates = meaning.make(angles, qubits)
        self.nested -= 1
        if name not in self.own:
            self.count(len(gates))
        return gates

    def count(self, gates: int) -> None:
        """DataError where the program grows beyond all measure."""
        self.made += gates
        if self.made > MOST_GATES:
            raise DataError(f"the program has more than {MOST_GATES:,} gates once its definitions are written out")

    def add(self, gates: Sequence[Gate], condition: Condition = ()) -> None:
        """Gates, where bits have these values."""
        for gate in gates:
            for each in settled(gate):
                self.gates.append(replace(each, condition=condition) if condition else each)

    def measure(self, qubits: Sequence[int], bits: Sequence[int], condition: Condition = ()) -> None:
        """Qubits into bits, one by one."""
        if len(qubits) != len(bits):
            raise DataError(f"{len(qubits)} qubits are measured into {len(bits)} bits")
        self.count(len(qubits))
        self.add([Gate("measure", (q,), bits=(b,)) for q, b in zip(qubits, bits, strict=True)], condition)

    def reset(self, qubits: Sequence[int], condition: Condition = ()) -> None:
        """Qubits to |0>."""
        self.count(len(qubits))
        self.add([Gate("reset", (q,)) for q in qubits], condition)

    def barrier(self, qubits: Sequence[int]) -> None:
        """A barrier over qubits, each once."""
        self.add([Gate("barrier", tuple(dict.fromkeys(qubits)))])

    def circuit(self) -> Circuit:
        """The circuit, at the end."""
        if not self.size["qubit"]:
            raise DataError("the program declares no qubits")
        made = Circuit(self.size["qubit"], self.size["bit"])
        made.parameters = dict(self.parameters)
        for gate in self.gates:
            made.add(gate)
        return made


def together(operands: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """Calls of a gate on registers: all first qubits, all second ones, ...; single qubits stand in each."""
    sizes = {len(each) for each in operands if len(each) != 1}
    if len(sizes) > 1:
        raise DataError(f"registers of {' and '.join(map(str, sorted(sizes)))} qubits do not go together")
    size = sizes.pop() if sizes else 1
    return [tuple(each[0] if len(each) == 1 else each[k] for each in operands) for k in range(size)]


def matrix(gates: Sequence[Gate], qubits: int) -> np.ndarray:
    """The matrix of gates without inputs on qubits 0, 1, ..."""
    circuit = Circuit(qubits)
    for gate in gates:
        for each in settled(gate):
            circuit.add(each)
    return circuit.matrix()
