"""The order in which gates are applied: sweeps over memory, and groups in these that act at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heappush

LOCAL, RUN = 13, 4
"""Qubits of a tile by default, and how many lie side by side in memory: strips of 256 bytes of complex128."""
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


class _Waiting:
    """Items that wait for others: for all in front of them that do not commute with them."""

    def __init__(self, items: Sequence[Item]) -> None:
        self.items = items
        self.holds: list[list[int]] = [[] for _ in items]  # what waits for each
        self.missing = [0] * len(items)
        mover: dict[int, int] = {}  # by bit: the last item that moves it
        readers: dict[int, list[int]] = {}  # and those behind it that read it
        for number, item in enumerate(items):
            ahead: set[int] = set()
            for bit in _bits(item.moves | item.reads):
                if bit in mover:
                    ahead.add(mover[bit])
                if item.moves >> bit & 1:
                    ahead.update(readers.get(bit, ()))
                    mover[bit], readers[bit] = number, []
                else:
                    readers.setdefault(bit, []).append(number)
            self.missing[number] = len(ahead)
            for each in ahead:
                self.holds[each].append(number)
        self.ready = [number for number, missing in enumerate(self.missing) if not missing]

    def take(self, number: int) -> list[int]:
        """Take an item: those that waited for it alone."""
        freed = []
        for each in self.holds[number]:
            self.missing[each] -= 1
            if not self.missing[each]:
                freed.append(each)
        return freed


def local_qubits(n: int, batch: int, threads: int) -> int:
    """Qubits of the tiles that are fastest for states of n qubits: large ones, which take the fewest passes over
    memory, up to a second cache (16 qubits: 1 MB of complex128); but of a single state enough for all threads."""
    most = min(n, 15 if n < 22 else 16)
    if batch > 1 or threads == 1 or n <= 10:
        return most
    spare = 1 + (threads - 1).bit_length() + (n >= 16)  # twice as many tiles as threads, or four times
    return max(10, min(most, n - spare))


def _bits(mask: int) -> Iterable[int]:
    while mask:
        yield (mask & -mask).bit_length() - 1
        mask &= mask - 1


def sweeps(items: Sequence[Item], n: int, local: int, run: int) -> Iterable[tuple[list[int], list[Item]]]:
    """(bits, items) of every sweep: as many items as fit, in the order given but for those that commute with all that
    are left behind."""
    waiting = _Waiting(items)
    ready = waiting.ready
    while ready:
        chosen = (1 << min(run, n)) - 1
        taken: list[Item] = []
        left: list[int] = []
        heapify(ready)
        while ready:
            number = heappop(ready)
            moves = items[number].moves
            if (chosen | moves).bit_count() > min(local, n):
                left.append(number)
                continue
            chosen |= moves
            taken.append(items[number])
            for each in waiting.take(number):
                heappush(ready, each)
        for bit in range(n):
            if chosen.bit_count() >= min(local, n):
                break
            chosen |= 1 << bit
        yield list(_bits(chosen)), taken
        ready = left


def levels(items: Sequence[Item]) -> Iterable[tuple[str, list[Item]]]:
    """The items of a sweep in groups. Permutations and matrices come as soon as they may, one by one; then all phases
    that may, then all turns, of distinct bits, each at once: so these wait for one another and pass a tile together."""
    waiting = _Waiting(items)
    ready: dict[str, list[int]] = {"other": [], "phase": [], "turn": []}

    def sort(numbers: Iterable[int]) -> None:
        for number in numbers:
            item = items[number]
            ready["phase" if not item.moves else "turn" if item.what == "turn" else "other"].append(number)

    sort(waiting.ready)
    while any(ready.values()):
        others: list[Item] = []
        while ready["other"]:
            number = ready["other"].pop(0)
            others.append(items[number])
            sort(waiting.take(number))
        if others:
            yield "other", others
        for kind in ("phase", "turn"):
            group, ready[kind] = ready[kind], []
            for number in group:
                sort(waiting.take(number))
            if group:
                yield kind, [items[number] for number in group]


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
