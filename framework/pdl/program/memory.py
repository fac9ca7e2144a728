"""The memory plan: the place of every array of a program, decided once.

Values whose lifetimes do not overlap share bytes of one block. Offsets are found greedily, largest array first, each at
the lowest place that is free during its whole life (Pisarchyk & Lee, arXiv 2001.03288).
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np

from pdl.dtype import Array
from pdl.limits import check_memory
from pdl.program.ir import Node, Program, Value, size_of

ALIGN = 64


@dataclass
class Storage:
    """One range of bytes and the values that lie in it; `first` and `last` are the nodes it lives through."""

    nbytes: int
    first: int
    last: int
    values: list[Value] = field(default_factory=list)
    offset: int = 0


@dataclass
class Plan:
    """Where everything lies.

    storages      ranges of the arena
    owner         value -> its storage; captured values have none
    views         values that are windows on their node's first input
    arena_bytes   size of the block: the peak memory of a run, without captured tensors
    held          values in memory of the caller's -> the input that this memory is given for
    """

    storages: list[Storage]
    owner: dict[Value, Storage]
    views: set[Value]
    arena_bytes: int
    held: dict[Value, Value] = field(default_factory=dict)

    @property
    def unshared_bytes(self) -> int:
        """What the same arrays would take with memory of their own each."""
        return sum(s.nbytes for s in self.storages)


def plan_memory(
    program: Program,
    held: Mapping[Value, bool] | None = None,
    late: Mapping[Value, int] | None = None,
    *,
    dense: bool = False,
) -> Plan:
    """Lifetimes, sharing in place, and offsets. MemoryLimitError where the block is over the limit of this thread.

    held   inputs that stay in memory of the caller's, and of each whether an op may overwrite it (`Op.overwrites`): an
           output of the program then lies where the input did
    late   inputs that are written just before a node, of that number, and not before the first: even one that no node
           reads takes no byte of what lives then
    dense  windows are left in place only where they are the whole of what they look into, in its order
    """
    check_memory(max((size_of(v.spec) for node in program.nodes for v in node.outputs), default=0))
    last = _last_reads(program)
    views = _find_views(program, dense)
    owner: dict[Value, Storage] = {}
    storages: list[Storage] = []
    held, late = held or {}, late or {}
    lies: dict[Value, Value] = {value: value for value in held}

    def new(value: Value, at: int) -> None:
        storage = Storage(max(1, size_of(value.spec)), at, last.get(value, at), [value])
        owner[value] = storage
        storages.append(storage)

    def free(value: Value, at: int) -> bool:
        """Whether node `at` may overwrite an input's memory: nothing in it is read any more."""
        if value in lies:  # by ops that say which output goes where, so that states do not change places
            root = lies[value]
            alone = all(last.get(v, at) <= at for v, where in lies.items() if where is root)
            return held[root] and len(program.nodes[at].outputs) > 1 and alone
        storage = owner.get(value)
        if storage is None or storage.values[0].node is None or storage.last > at:
            return False
        return all(last.get(v, at) <= at for v in storage.values)

    for value in program.inputs:
        if value not in held:
            new(value, late.get(value, -1))
    for at, node in enumerate(program.nodes):
        for value in node.outputs:
            source = node.inputs[0] if value in views else _overwritten(node, value, at, views, free)
            if source is None:
                new(value, at)
            elif source in lies:
                lies[value] = lies[source]
            elif source in owner:
                storage = owner[value] = owner[source]
                storage.values.append(value)
                storage.last = max(storage.last, last.get(value, at))
    # a view may outlive the value it looks into; storages are ordered by then, so lifetimes are final
    size = _place(storages)
    check_memory(size)
    return Plan(storages, owner, views, size, lies)


def _last_reads(program: Program) -> dict[Value, int]:
    """The number of the last node that reads each value; one past the end for outputs and effects."""
    found: dict[Value, int] = {}
    for at, node in enumerate(program.nodes):
        for value in node.inputs:
            if value is not None:
                found[value] = at
    end = len(program.nodes)
    for value in (*program.outputs, *(v for _, v in program.effects)):
        if value is not None:
            found[value] = end
    return found


def _overwritten(
    node: Node, out: Value, at: int, views: set[Value], free: Callable[[Value, int], bool]
) -> Value | None:
    """An input that dies here and whose bytes the output may take."""
    if len(node.outputs) > 1:
        place = node.op.overwrites.get(out.index)
        candidates = node.inputs[place : place + 1] if place is not None else ()
    else:
        candidates = node.inputs if node.op.inplace else ()
    for value in candidates:
        if value is None or value.spec != out.spec or value in views or node.inputs.count(value) != 1:
            continue
        if free(value, at):
            return value
    return None


def _find_views(program: Program, dense: bool) -> set[Value]:
    """Values of view ops that really are windows: found by applying the op to arrays that nobody touches."""
    block = np.empty(max([1, *(size_of(v.spec) for n in program.nodes for v in n.inputs if v is not None)]), np.uint8)
    shown: dict[Value, Array] = {}
    found: set[Value] = set()

    def stand_in(value: Value) -> Array:
        array = shown.get(value)
        if array is None:
            array = block[: size_of(value.spec)].view(value.spec.dtype).reshape(value.spec.shape)
        return array

    for node in program.nodes:
        if node.op.view is None or node.inputs[0] is None:
            continue
        source = stand_in(node.inputs[0])
        window = node.op.view(source)
        if dense and not (window.flags.c_contiguous and window.size == source.size):
            continue
        if window.size == 0 or np.may_share_memory(window, source):
            found.add(node.outputs[0])
            shown[node.outputs[0]] = window
    return found


def _place(storages: Iterable[Storage]) -> int:
    """Give every storage its offset; returns the size of the block."""
    placed: list[tuple[int, int, int, int]] = []  # where each begins and ends in memory and in time, by its offset
    size = 0
    for storage in sorted(storages, key=lambda s: (-s.nbytes, s.first)):
        at, nbytes, first, last = 0, storage.nbytes, storage.first, storage.last
        for begin, end, born, dead in placed:
            if born <= last and first <= dead:
                if begin - at >= nbytes:
                    break
                at = end if end > at else at
        storage.offset = at
        insort(placed, (at, _aligned(at + nbytes), first, last))
        size = max(size, at + nbytes)
    return _aligned(size)


def _aligned(n: int) -> int:
    return (n + ALIGN - 1) // ALIGN * ALIGN
