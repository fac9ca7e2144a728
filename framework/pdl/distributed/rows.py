"""Rows of a table whose shares several processes have: who names which, to ask for them or to add to them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pdl.distributed.group import Group
from pdl.dtype import Array, DType
from pdl.kernels import rows as kernels
from pdl.kernels.memory import empty

_ELEMENTS = 1 << 16  # numbers that travel between two ranks at a time


class Routes:
    """The rows that each rank names of a table [W each, C], of which rank r has [r each, (r + 1) each); all make this
    call, and those below, together.

    rows    int64 [n], each once and in order: what this rank names
    cuts    [W + 1]: rows[cuts[r] : cuts[r + 1]] are of rank r
    named   [W, most]: by rank, the rows that it names of this one, counted from the first of the share; then zeros
    counts  [W]: how many these are
    """

    def __init__(self, group: Group, rows: Array, each: int, what: str) -> None:
        self.group, self.what = group, what
        self.cuts = np.searchsorted(rows, each * np.arange(group.size + 1)).tolist()
        counts = group.rows(np.diff(self.cuts))
        self.counts, most = counts[:, group.rank].tolist(), int(counts.max())
        outgoing = np.zeros((group.size, most), np.int64)
        self.named = np.empty_like(outgoing)
        for rank, (begin, end) in enumerate(zip(self.cuts, self.cuts[1:], strict=False)):
            outgoing[rank, : end - begin] = rows[begin:end] - rank * each
        if most:
            group.exchange(outgoing, self.named, what).wait()

    def pieces(self, width: int, dtype: DType) -> Iterator[tuple[int, Array, Array]]:
        """Where a piece of the rows begins, and memory [W, rows, width] to send and to receive it."""
        most, step = self.named.shape[1], max(1, _ELEMENTS // width)
        for begin in range(0, most, step):
            shape = self.group.size, min(step, most - begin), width
            yield begin, empty(shape, dtype), empty(shape, dtype)

    def ask(self, own: Array, out: Array, places: Array) -> int:
        """out[i] = row places[i] of the named ones, int64 [m] -> [m, C], from the shares `own` [each, C] of all; the
        bytes that it took."""
        order = np.argsort(places, kind="stable")
        ordered, held = places[order], 0
        for begin, outgoing, incoming in self.pieces(own.shape[1], own.dtype):
            for rank, count in enumerate(self.counts):
                ids = self.named[rank, begin : min(count, begin + outgoing.shape[1])]
                kernels.take(outgoing[rank, : len(ids)], own, ids, name="embedding")
                outgoing[rank, len(ids) :] = 0
            self.group.exchange(outgoing, incoming, self.what).wait()
            for rank, (first, end) in enumerate(zip(self.cuts, self.cuts[1:], strict=False)):
                first += begin
                lies = order[slice(*np.searchsorted(ordered, (first, min(end, first + incoming.shape[1]))))]
                out[lies] = incoming[rank, places[lies] - first]
            held = max(held, outgoing.nbytes + incoming.nbytes)
        return held + self.nbytes

    def give(self, values: Array, own: Array, factor: float, wire: DType) -> int:
        """own [each, C] += the values [n, C] of all, times their factors, as numbers of `wire`, which rows name; the
        bytes that it took."""
        held = 0
        for begin, outgoing, incoming in self.pieces(own.shape[1], wire):
            for rank, (first, end) in enumerate(zip(self.cuts, self.cuts[1:], strict=False)):
                piece = values[first + begin : min(end, first + begin + outgoing.shape[1])]
                outgoing[rank, : len(piece)] = np.multiply(piece, own.dtype.type(factor))
                outgoing[rank, len(piece) :] = 0
            self.group.exchange(outgoing, incoming, self.what).wait()
            for rank, count in enumerate(self.counts):
                ids = self.named[rank, begin : min(count, begin + incoming.shape[1])]
                kernels.add(own, ids, incoming[rank, : len(ids)].astype(own.dtype, copy=False), name="add_rows")
            held = max(held, outgoing.nbytes + incoming.nbytes)
        return held + self.nbytes

    @property
    def nbytes(self) -> int:
        """Memory of the numbers of rows."""
        return 2 * self.named.nbytes
