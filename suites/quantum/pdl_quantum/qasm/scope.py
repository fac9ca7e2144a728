"""What names mean at a place of an OpenQASM 3 program: values, qubits, the entries that an index picks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pdl.errors import DataError
from pdl_quantum.circuits import Parameter
from pdl_quantum.qasm.evaluate import evaluate, number_of
from pdl_quantum.qasm.values import Value, whole


@dataclass
class Scope:
    """What names mean at a place: values, and the qubits of a definition."""

    values: dict[str, Value | Parameter] = field(default_factory=dict)
    qubits: Mapping[str, Sequence[int]] = field(default_factory=dict)

    def with_value(self, name: str, value: Value) -> Scope:
        """The scope inside a round of a loop."""
        return Scope({**self.values, name: value}, self.qubits)


def picked(name: str, held: Sequence[int], index: Any, scope: Scope) -> list[int]:
    """The entries of a register that an index names."""
    if type(index).__name__ == "DiscreteSet":
        places = [number_of(each, scope.values, "an index") for each in index.values]
    elif len(index) != 1:
        raise DataError(f"{name} has one index")
    elif type(index[0]).__name__ == "RangeDefinition":
        places = list(bounds(index[0], scope, len(held)))
    else:
        places = [number_of(index[0], scope.values, "an index")]
    for place in places:
        if not -len(held) <= place < len(held):
            raise DataError(f"{name}[{place}]: {name} has {len(held)} entries")
    return [held[place] for place in places]


def bounds(node: Any, scope: Scope, size: int | None) -> range:
    """start:step:end, the end with it; open ends are those of the register."""
    ends = [None if each is None else evaluate(each, scope.values) for each in (node.start, node.step, node.end)]
    start, step, end = (None if each is None else whole(each, "the bound of a range") for each in ends)
    step = 1 if step is None else step
    if step == 0 or (size is None and (start is None or end is None)):
        raise DataError("a range needs a step other than 0, and both ends")
    last = (size or 0) - 1
    first, final = (last, 0) if step < 0 else (0, last)
    start, end = first if start is None else start, final if end is None else end
    if size is not None:
        start, end = (each + size if each < 0 else each for each in (start, end))
    return range(start, end + (1 if step > 0 else -1), step)
