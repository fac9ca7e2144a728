"""`SyncNorms`: batch norms that take mean and variance over the samples of all ranks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np

from pdl.distributed.group import Group, RankError
from pdl.dtype import Array
from pdl.nn import Module
from pdl.nn.norm import _BatchNorm


class SyncNorms:
    """The batch norms of a model, which all ranks run on their shares of the same batches.

        begin(counts)    before a step in which rank r has counts[r] batches
        next_batch()     before this rank runs the model on the next of its own

    A rank without samples does not run the model, and the others do not wait for it. Norms in evaluation mode (frozen
    ones) exchange nothing.
    """

    def __init__(self, model: Module, group: Group) -> None:
        self.group = group
        self.norms = [module for module in model.modules() if isinstance(module, _BatchNorm)]
        self._parts: dict[tuple[int, ...], Group] = {}
        self.begin([1] * group.size)

    @contextmanager
    def joined(self) -> Iterator[None]:
        """Inside the block the norms are over all ranks; elsewhere they are as any others."""
        try:
            for number, norm in enumerate(self.norms):
                norm.across = _Point(self, number)
            yield
        finally:
            for norm in self.norms:
                norm.__dict__.pop("across", None)

    def begin(self, counts: Sequence[int]) -> None:
        """Batches of each rank in the step that begins."""
        self.counts, self._done = tuple(counts), 0
        self.now: Group | None = None

    def next_batch(self) -> None:
        """Find those that have a batch as this rank has; all of them are here."""
        self.meet(self._done)
        self._done += 1

    def meet(self, number: int) -> None:
        """The same for the batch of that number; all of them run their batches in the same order."""
        if self.norms:
            members = tuple(rank for rank, count in enumerate(self.counts) if count > number)
            if members not in self._parts:
                self._parts[members] = self.group.part(members)
            self.now = self._parts[members]

    def adopt(self) -> None:
        """After a step: ranks with fewer batches take the running statistics of one that has seen all."""
        if min(self.counts) < max(self.counts):
            root = self.counts.index(max(self.counts))
            for norm in self.norms:
                for buffer in norm.buffers():
                    self.group.broadcast(buffer._data, root)


class _Point:
    """A batch norm, as its like on the other ranks meet it."""

    def __init__(self, norms: SyncNorms, number: int) -> None:
        self.norms, self.number = norms, number

    def rows(self, mine: Array) -> Array:
        """Its numbers on the ranks that have a batch, by rank."""
        assert self.norms.now is not None
        rows = self.norms.now.rows(np.concatenate([[self.number], mine]))
        if (rows[:, 0] != self.number).any():
            raise RankError(
                f"batch norm {self.number} here meets batch norms {rows[:, 0].astype(int).tolist()} of the other "
                "processes: the model takes another way on each, so they cannot have common statistics "
                "(distributed.sync_batch_norm=false)"
            )
        return rows[:, 1:]
