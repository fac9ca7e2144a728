"""`Mesh`: the processes of a training in named axes, and the groups along each.

    data       processes that share the samples of a batch
    pipeline   processes that each have some layers
    tensor     processes that each have a part of every layer

Neighbouring ranks are of one tensor axis, which exchanges most (Narayanan et al., arXiv 2104.04473).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property

import numpy as np

from pdl.distributed.group import Group
from pdl.dtype import Array
from pdl.errors import UsageError

AXES = ("data", "pipeline", "tensor")


class Mesh:
    """Sizes of the axes and the place of `rank` in them; with a `group`, this process is one of it.

    UsageError where the sizes do not multiply to the processes of the group.
    """

    def __init__(self, sizes: Mapping[str, int], rank: int = 0, group: Group | None = None) -> None:
        self.sizes = {axis: int(sizes.get(axis, 1)) for axis in AXES}
        self.size, self.world = math.prod(self.sizes.values()), group
        if group is not None and group.size != self.size:
            raise UsageError(f"distributed: {self} are {self.size} processes, and there are {group.size}")
        self.rank = rank if group is None else group.rank
        places = np.arange(self.size).reshape(tuple(self.sizes.values()))
        self.place = dict(zip(AXES, map(int, np.argwhere(places == self.rank)[0]), strict=True))
        self._places = places

    def __str__(self) -> str:
        return " x ".join(f"{axis}={n}" for axis, n in self.sizes.items() if n > 1 or axis == "data")

    def ranks(self, axis: str) -> list[int]:
        """Those that differ from this one in `axis` alone, in its order; this one is among them."""
        index = tuple(slice(None) if a == axis else self.place[a] for a in AXES)
        return [int(r) for r in self._places[index]]

    def group(self, axis: str) -> Group:
        """The processes along an axis. All ranks ask in the same order."""
        if axis not in self._groups:
            assert self.world is not None
            self._groups[axis] = self.world.part(self.ranks(axis))
        return self._groups[axis]

    @cached_property
    def _groups(self) -> dict[str, Group]:
        return {}

    @classmethod
    def parse(cls, text: str) -> Mesh:
        """From ``data=2,tensor=2``."""
        sizes: dict[str, int] = {}
        for word in text.replace(" ", "").split(","):
            axis, _, number = word.partition("=")
            if axis not in AXES or not number.isdigit() or not int(number) or axis in sizes:
                raise UsageError(f"mesh {text!r}: {word!r} is no axis and its size; write data=2,tensor=2")
            sizes[axis] = int(number)
        return cls(sizes)


class Line:
    """The processes of one axis, as ops find them (`pdl.ops.cut.Parts`)."""

    def __init__(self, group: Group) -> None:
        self.group = group

    def rows(self, mine: Array) -> Array:
        """[processes, ...]: the arrays of all."""
        return self.group.rows(mine)

    def total(self, mine: Array) -> Array:
        """The sum of the arrays of all, in the order of the processes, the same bits on each: of two processes both
        arrays cross, of more each sums a share and hands it out."""
        size = self.group.size
        if size == 2 or mine.size < size * 64:
            rows = self.group.rows(mine)
            return np.add(rows[0], rows[1]) if size == 2 else rows.sum(axis=0)
        share = -(-mine.size // size)
        outgoing = np.zeros((size, share), mine.dtype)
        outgoing.reshape(-1)[: mine.size] = mine.reshape(-1)
        incoming = np.empty_like(outgoing)
        self.group.exchange(outgoing, incoming).wait()
        whole = self.group.rows(incoming.sum(axis=0))
        return whole.reshape(-1)[: mine.size].reshape(mine.shape)
