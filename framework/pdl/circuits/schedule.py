"""The order in which gates are applied: sweeps over memory, and groups in these that act at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

LOCAL, RUN = 13, 4
"""Qubits of a tile, and how many of these lie side by side in memory: 128 kB of complex128, in strips of 256 bytes."""
TURN, PHASE, MASKED, PARITY, FLIP, DENSE = range(6)
"""Codes of the engine's ops."""


@dataclass(frozen=True, eq=False)
class Item:
    """One op of the engine. Bit k of a mask is bit k of an amplitude's index.

    moves   bits whose amplitudes it mixes;    reads  bits it only looks at
    what    "turn", "phase", "masked", "parity", "flip", "dense";    bits  of its kind
    slot    where its values are;    gradient  where its derivative goes, or -1;    all  whether of x, y and z
    """

    what: str
    moves: int
    reads: int
    bits: tuple[int, ...] = ()
    slot: int = -1
    gradient: int = -1
    all: bool = False
    mask: int = 0
    value: int = 0


def sweeps(items: Sequence[Item], n: int, local: int, run: int) -> Iterable[tuple[list[int], list[Item]]]:
    """(bits, items) of every sweep: as many items as fit, in the order given but for those that commute with all that
    are left behind."""
    left = list(items)
    low = (1 << min(run, n)) - 1
    while left:
        chosen, moved, read = low, 0, 0
        taken: list[Item] = []
        rest: list[Item] = []
        for item in left:
            free = not (item.moves | item.reads) & moved and not item.moves & read
            if free and (chosen | item.moves).bit_count() <= min(local, n):
                chosen |= item.moves
                taken.append(item)
            else:
                rest.append(item)
                moved |= item.moves
                read |= item.reads
        for bit in range(n):
            if chosen.bit_count() >= min(local, n):
                break
            chosen |= 1 << bit
        yield [bit for bit in range(n) if chosen >> bit & 1], taken
        left = rest


def levels(items: Sequence[Item]) -> Iterable[tuple[str, list[Item]]]:
    """The items of a sweep as groups that act at once: all phases that may, then all turns of distinct bits, then one
    of the others."""
    left = list(items)
    while left:
        for kind in ("phase", "turn", "other"):
            moved = read = 0
            taken: list[Item] = []
            rest: list[Item] = []
            for item in left:
                own = "phase" if not item.moves else "turn" if item.what == "turn" else "other"
                free = not (item.moves | item.reads) & moved and not item.moves & read
                if own == kind and free and not (kind == "other" and taken):
                    taken.append(item)
                    if kind != "phase":  # it has moved: what follows on these bits waits
                        moved |= item.moves
                        read |= item.reads
                else:
                    rest.append(item)
                    moved |= item.moves
                    read |= item.reads
            if taken:
                yield kind, taken
                left = rest


class Writer:
    """The stream of a program."""

    def __init__(self, n: int) -> None:
        self.n, self.words = n, [0]

    def sweep(self, bits: list[int], items: Sequence[Item], run: int, scalar: int) -> bool:
        """Write a sweep; True where the program's common factor found a place in it."""
        place = {bit: k for k, bit in enumerate(bits)}
        ops: list[int] = []
        count, used = 0, False
        for kind, group in levels(items):
            for code, payload in self._ops(kind, group, place, scalar if not used else -1):
                used = used or (code == PHASE and scalar >= 0)
                ops += [code, len(payload), *payload]
                count += 1
        side = len(bits) if len(bits) == self.n else min(run, len(bits))
        body = [len(bits), side, *bits, count, *ops]
        self.words += [len(body), *body]
        self.words[0] += 1
        return used

    def _ops(
        self, kind: str, group: Sequence[Item], place: Mapping[int, int], scalar: int
    ) -> list[tuple[int, list[int]]]:
        if kind == "turn":
            rows = [[place[item.bits[0]], item.slot, item.gradient, int(item.all)] for item in group]
            return [(TURN, [len(rows), *(word for row in rows for word in row)])]
        made: list[tuple[int, list[int]]] = []
        phases = [item for item in group if item.what == "phase"]
        if phases:
            made.append((PHASE, _phase_words(phases, place, scalar)))
        for item in group:
            inner, inner_value = _local(item.mask, place), _local(item.value, place)
            outer, outer_value = _outside(item.mask, place), _outside(item.value, place)
            masks = [inner, inner_value, outer, outer_value]
            if item.what == "masked":
                made.append((MASKED, [*masks, item.slot, item.gradient]))
            elif item.what == "parity":
                made.append((PARITY, [inner, outer, item.slot, item.gradient]))
            elif item.what == "flip":
                made.append((FLIP, [place[item.bits[0]], *masks]))
            elif item.what == "dense":
                bits = [place[bit] for bit in item.bits]
                made.append((DENSE, [len(bits), *bits, *masks, item.slot, item.gradient]))
        return made


def _local(mask: int, place: Mapping[int, int]) -> int:
    return sum(1 << k for bit, k in place.items() if mask >> bit & 1)


def _outside(mask: int, place: Mapping[int, int]) -> int:
    return mask & ~sum(1 << bit for bit in place)


def _phase_words(items: Sequence[Item], place: Mapping[int, int], scalar: int) -> list[int]:
    lists: list[list[list[int]]] = [[], [], [], [], []]
    for item in items:
        inner = [place[bit] for bit in item.bits if bit in place]
        outer = [bit for bit in item.bits if bit not in place]
        kind = {(1, 0): 0, (2, 0): 1, (1, 1): 2, (0, 1): 3, (0, 2): 4}[len(inner), len(outer)]
        lists[kind].append([*inner, *outer, item.slot, item.gradient])
    words = [scalar]
    for each in lists:
        words += [len(each), *(word for row in each for word in row)]
    return words


__all__ = ["DENSE", "FLIP", "Item", "LOCAL", "MASKED", "PARITY", "PHASE", "RUN", "TURN", "Writer", "levels", "sweeps"]
