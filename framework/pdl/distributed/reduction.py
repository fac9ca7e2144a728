"""`Reduction`: the mean gradient over all ranks, exchanged bucket by bucket while the backward part goes on.

Each rank sums one share of every bucket, in the order of the ranks, and hands it to all (a reduce-scatter, then an
all-gather: 2 (W - 1) / W of the bytes cross the wire, Patarasuk & Yuan, 2009). So every rank gets the same bits, run
after run, whatever the network does; and shares are where optimiser state can be divided, too.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from pdl.distributed.group import Group, Pending
from pdl.distributed.rows import Routes
from pdl.distributed.shared import meeting, shared
from pdl.dtype import Array, DType, bfloat16, float32, float64
from pdl.errors import UsageError
from pdl.kernels.copies import convert
from pdl.kernels.memory import empty
from pdl.ops.sparse import SparseGrad
from pdl.tensor import Tensor, no_grad

_ALIGN = 16  # elements
_CACHED = 1 << 14  # elements that are summed at a time
_COLUMNS = 1 << 16  # elements of a rank's share that travel at a time


@dataclass
class Header:
    """What all ranks say of a step before their gradients.

    weight, loss   sums over the ranks: of the weights of their losses, and of weight times loss
    stop           whether a rank wants to end
    seconds        [ranks]: what each has said of itself
    """

    weight: float
    loss: float
    stop: bool
    seconds: Array


def told(header: Array) -> Header:
    """What rows [rank, (weight, weight times loss, stop, seconds, ...)] say."""
    weight, loss, stop = header[:, :3].sum(axis=0).tolist()
    return Header(weight, loss, stop > 0, header[:, 3].copy())


def used_anywhere(header: Array) -> list[bool]:
    """Of each parameter whether a rank has a gradient, by such rows."""
    return [number > 0 for number in header[:, 4:].max(axis=0).tolist()]


@dataclass
class Place:
    """Where the gradient of a parameter lies in its bucket."""

    bucket: Bucket
    begin: int
    end: int

    def piece(self, rank: int) -> slice:
        """The part of the parameter that a rank sums."""
        share = self.bucket.share
        first, last = max(self.begin, rank * share), min(self.end, (rank + 1) * share)
        return slice(first - self.begin, last - self.begin) if first < last else slice(0, 0)

    def mine(self, own: Array, rank: int) -> Array:
        """That part in `own`, the rank's share of the bucket."""
        lies, begin = self.piece(rank), self.begin - rank * self.bucket.share
        return own[begin + lies.start : begin + lies.stop] if lies.stop else own[:0]


class Bucket:
    """Gradients that travel together.

    number   of this one
    width    0, or what shares are multiples of: the columns of a table that is alone here, divided by rows
    memory   [size, share]: row r is what rank r sums
    own      [share]: what this rank sums
    kept     whether `memory` stays between steps; otherwise it is there from the first gradient to the sum
    """

    def __init__(self, dtype: DType, number: int, width: int = 0) -> None:
        self.dtype, self.number, self.width, self.members, self.length = dtype, number, width, list[int](), 0
        self.gaps: list[slice] = []

    def add(self, index: int, size: int) -> Place:
        """A place for a parameter's gradient."""
        begin = self.length
        self.members.append(index)
        self.length += size if self.width else -(-size // _ALIGN) * _ALIGN
        self.gaps.append(slice(begin + size, self.length))
        return Place(self, begin, begin + size)

    def divide(self, group: Group) -> None:
        """The shares of the ranks, now that its size is known."""
        self.group = group
        unit = self.width or _ALIGN
        self.share = -(-self.length // (group.size * unit)) * unit
        self.gaps.append(slice(self.length, group.size * self.share))
        self.memory: Array | None = None
        self.incoming: Array | None = None

    def allocate(self, wire: DType, *, kept: bool) -> None:
        """Its memory."""
        self.wire, self.kept = wire, kept
        if kept:
            self.open()
            self.incoming = empty(self.shape, wire)
        else:
            self.own = empty((self.share,), self.dtype)
        self.reset(self.members)

    @property
    def shape(self) -> tuple[int, int]:
        """[size, share]."""
        return self.group.size, self.share

    @property
    def nbytes(self) -> int:
        """Memory of it now."""
        held = [self.memory, self.incoming, *([] if self.kept else [self.own])]
        return sum(array.nbytes for array in held if array is not None)

    def open(self) -> Array:
        """The memory in a row; what lies between the gradients is 0, so that what travels is finite."""
        if self.memory is None:
            self.memory = empty(self.shape, self.dtype)
            for gap in self.gaps:
                self.memory.reshape(-1)[gap] = 0
        if self.kept:
            self.own = self.memory[self.group.rank]
        return self.memory.reshape(-1)

    def close(self) -> None:
        """The memory is not needed any more."""
        if not self.kept:
            self.memory = self.incoming = None

    def reset(self, used: Iterable[int]) -> None:
        """Before a step in which these of the members come."""
        self.missing, self.phase = set(used), 0
        self.pending: Pending | None = None

    def start(self) -> None:
        """Send every rank its share."""
        assert self.memory is not None
        outgoing = self.memory
        if self.wire != self.dtype:
            outgoing = empty(self.shape, self.wire)
            convert(outgoing, self.memory)
        if self.incoming is None or self.incoming.dtype != self.wire:
            self.incoming = empty(self.shape, self.wire)
        self.pending = self.group.exchange(outgoing, self.incoming, f"sum of bucket {self.number}")
        self.phase = 1

    def hand_out(self) -> None:
        """Send what this rank's share now holds to all, as it is."""
        if self.incoming is None or self.incoming.dtype != self.dtype:
            self.incoming = empty(self.shape, self.dtype)
        self.pending = self.group.gather(self.own, self.incoming, f"gather of bucket {self.number}", later=True)

    def wait(self) -> None:
        """Wait for the shares of the others."""
        assert self.pending is not None
        self.pending.wait()
        self.pending = None
        self._swap()

    def advance(self, scale: float, *, gather: bool) -> bool:
        """Do what can be done without waiting; True when the sums of all ranks are there, or, unless they are to be
        gathered, that of this one's share."""
        if self.phase == 0:
            return False
        if self.pending is not None and self.pending.done():
            self.pending = None
            if self.phase == 1:
                assert self.incoming is not None
                add_rows(self.own, self.incoming, scale)
                if gather:
                    self._gather()
                else:
                    self.phase = 3
                    self.close()
            else:
                self._finish()
        return self.phase == 3

    def _gather(self) -> None:
        """The sums of this rank to all."""
        assert self.incoming is not None
        mine = self.own
        if self.incoming.dtype != self.dtype:
            rounded = empty(mine.shape, self.wire)
            convert(rounded, mine)
            mine = rounded
        self.pending = self.group.gather(mine, self.incoming, f"gather of bucket {self.number}", later=True)
        self.phase = 2

    def _finish(self) -> None:
        assert self.memory is not None
        assert self.incoming is not None
        if self.incoming.dtype == self.dtype:
            self._swap()
        else:
            convert(self.memory, self.incoming)
        self.phase = 3

    def _swap(self) -> None:
        """What has come takes the place of what was there."""
        self.memory, self.incoming = self.incoming, self.memory
        if self.kept:
            self.open()


class SharedBucket(Bucket):
    """A bucket of ranks on one machine, which read each other's gradients where they lie.

    area   [size + 1, size, share]: the gradients of each rank, then what is for all: sums, or new weights
    """

    def __init__(self, bucket: Bucket, area: Array) -> None:
        vars(self).update(vars(bucket))
        self.wire, self.kept = self.dtype, True
        self.area = area.view(self.dtype).reshape(self.group.size + 1, *self.shape)
        self.memory, self.incoming = self.area[self.group.rank], self.area[-1]
        self.own = self.incoming[self.group.rank]
        self.reset(self.members)

    def open(self) -> Array:
        """Where the gradients of this rank go, or, after the step, what is for all."""
        return self.row

    def reset(self, used: Iterable[int]) -> None:
        """As of a `Bucket`: gradients go into this rank's memory."""
        super().reset(used)
        assert self.memory is not None
        self.row = self.memory.reshape(-1)

    def start(self) -> None:
        """Wait until the others have come as far."""
        self.pending, self.phase = self._meeting("sum"), 1

    def hand_out(self) -> None:
        """Let the others read what this rank's share now holds."""
        self.pending = self._meeting("gather")

    def _meeting(self, what: Literal["sum", "gather"]) -> Pending:
        return meeting(self.group, f"{what} of bucket {self.number}", self.area[0].nbytes, later=what == "gather")

    def advance(self, scale: float, *, gather: bool) -> bool:
        """As of a `Bucket`."""
        if self.pending is not None and self.pending.done():
            self.pending = None
            if self.phase == 1:
                add_rows(self.own, self.area[:-1, self.group.rank], scale)
                self.pending, self.phase = (self._meeting("gather"), 2) if gather else (None, 3)
            else:
                self.phase = 3
            self._swap()
        return self.phase == 3

    def _swap(self) -> None:
        assert self.incoming is not None
        self.row = self.incoming.reshape(-1)


def add_rows(out: Array, rows: Array, scale: float) -> None:
    """out = scale sum_r rows[r], in the order of the rows."""
    if rows.dtype != out.dtype:
        wide = empty(rows.shape, out.dtype)
        convert(wide, rows)
        rows = wide
    for begin in range(0, len(out), _CACHED):
        piece, parts = out[begin : begin + _CACHED], rows[:, begin : begin + _CACHED]
        if len(rows) == 1:
            piece[...] = parts[0]
        else:
            np.add(parts[0], parts[1], out=piece)
        for part in parts[2:]:
            piece += part
        piece *= out.dtype.type(scale)


class Reduction:
    """Means of gradients over the ranks of a group, of the parameters given, in steps of

        begin(weight, loss, used)     on every rank; where it has no samples, with weight 0
        take(i, gradient)             of each parameter that is used here, any order; times its factor it is summed
        finish()                      the header; then `gradient(i)` is sum_r weight_r g_r / sum_r weight_r

    wire      dtype on the wire of float32 gradients: float32, or bfloat16, which halves the bytes; sums are float32
    megabytes of a bucket; a parameter that is larger has one of its own
    overlap   buckets travel as soon as they are full; otherwise all at the end
    gather    every rank gets all sums; otherwise each keeps those of its share (`Place.piece`)
    sparse    parameters whose gradients come as rows; None: what the first step shows. Where it is known, and sums are
              not gathered, buckets have memory only while they fill and travel
    tables    parameters [R, C] whose gradients may come as rows and are dense all the same: one that is larger than a
              bucket is divided by rows, so that rows alone travel
    """

    def __init__(
        self,
        group: Group,
        parameters: Sequence[Tensor],
        *,
        wire: Literal["fp32", "bf16"] = "fp32",
        megabytes: float = 4.0,
        overlap: bool = True,
        gather: bool = True,
        sparse: Collection[int] | None = None,
        tables: Collection[int] = (),
    ) -> None:
        self.group, self.parameters, self.overlap, self.gather = group, list(parameters), overlap, gather
        self.wire, self.most = bfloat16 if wire == "bf16" else float32, int(megabytes * 2**20)
        self.places: dict[int, Place] = {}
        self.buckets: list[Bucket] = []
        self.sparse, self.tables = set[int](), frozenset(tables)
        self.started = False  # a step under way
        self._laid_out = False
        self._early: dict[int, Tensor] = {}  # of the first step, before the buckets are known
        self._stage: tuple[Array, Array] | None = None
        self.most_held = 0  # bytes
        if sparse is not None:
            self._lay_out(set(sparse), kept=gather)

    # -- a step --------------------------------------------------------------------------------------------------------
    def begin(
        self,
        weight: float,
        loss: float,
        used: Sequence[bool],
        *,
        stop: bool = False,
        seconds: float = 0.0,
        together: bool = False,
    ) -> None:
        """What this rank's gradients are a mean over, its loss, and which parameters they are of; and for others to
        know, `seconds`.

        together   all ranks take the gradients of the same parameters in the same order, between the same other
                   messages: so a rank may wait for the others as soon as a bucket is full
        """
        self._mine = np.array([weight, loss * weight if weight else 0.0, stop, seconds, *used], np.float64)
        self._all = np.empty((self.group.size, len(self._mine)), np.float64)
        self._header = self.group.gather(self._mine, self._all, "header")
        self._scale: float | None = None
        self._weight, self._found = weight, dict[int, SparseGrad]()
        self.started = True
        self._alike = together and not self.gather and self._laid_out
        self._together = self._alike and not self.overlap
        for bucket in self.buckets:
            bucket.reset(bucket.members)
        self._next = 0

    def take(self, index: int, gradient: Tensor, *, weighted: bool = False) -> None:
        """The gradient of a parameter on this rank; `weighted`: times this rank's weight already."""
        factor = 1.0 if weighted else self._weight
        if not self._laid_out:
            self._early[index] = _owned(gradient, factor)
        elif index in self.sparse:
            self._found[index] = _sparse(gradient, factor)
        else:
            self._put(index, gradient, factor)

    def finish(self) -> Header:
        """Wait until all buckets have come."""
        self._await_header()
        self.started = False
        if not self._laid_out:
            mine = np.array([isinstance(self._early.get(i), SparseGrad) for i in range(len(self.parameters))], np.uint8)
            self._lay_out(set(np.flatnonzero(self.group.rows(mine).any(axis=0)).tolist()), kept=True)
        for bucket in self.buckets:
            for index in bucket.missing:
                place = self.places[index]
                bucket.open()[place.begin : place.end] = 0
            bucket.missing = set()
            if not bucket.kept and not self.overlap and bucket.phase == 0:
                self._sum_now(bucket, bucket.open())
        if self.gather or self.overlap or any(bucket.kept for bucket in self.buckets):
            self._start()
            self.group.wait_for(self._advance)
        self._found = {index: self._joined(index) for index in sorted(self.sparse)}
        self._used = used_anywhere(self._all)
        return told(self._all)

    def gradient(self, index: int) -> Tensor | None:
        """The mean gradient of a parameter; None where no rank uses it. Dense ones are windows on memory that the next
        step overwrites."""
        if not self.used(index):
            return None
        if index in self.sparse:
            return self._found[index]
        if not self.gather:
            return None
        place, parameter = self.places[index], self.parameters[index]
        values = place.bucket.open()[place.begin : place.end]
        if parameter.dtype.kind == "c":
            values = values.view(parameter.dtype)
        return Tensor._wrap(values.reshape(parameter.shape))

    def used(self, index: int) -> bool:
        """Whether a rank has a gradient of a parameter in this step."""
        return self._used[index]

    # -- its parts -----------------------------------------------------------------------------------------------------
    def _await_header(self) -> None:
        if self._scale is None:
            self._header.wait()
            total = float(self._all[:, 0].sum())
            self._scale = 1.0 / total if total else 0.0

    def _put(self, index: int, gradient: Tensor, factor: float) -> None:
        place = self.places[index]
        bucket = place.bucket
        bucket.missing.discard(index)
        if isinstance(gradient, SparseGrad):
            if self._alike and bucket.width:
                self._sum_rows(bucket, gradient, factor)
                return
            gradient = gradient.to_dense()
        values = gradient._data
        if self._together and len(bucket.members) == 1 and values.dtype == bucket.dtype:
            self._sum_now(bucket, np.ascontiguousarray(values).reshape(-1), factor)
            return
        target = bucket.open()[place.begin : place.end]
        if values.dtype.kind == "c":
            target = target.view(values.dtype)
        target = target.reshape(values.shape)
        if values.dtype == bfloat16:
            convert(target, np.ascontiguousarray(values))
            target *= target.dtype.type(factor)
        else:
            np.multiply(values, values.dtype.type(factor), out=target)
        self._count()
        if bucket.missing:
            return
        if self._together:
            self._sum_now(bucket, bucket.open())
        elif self.overlap:
            self._start()
            if self._scale is None and self._header.done():
                self._await_header()
            if self._scale is not None:
                self._advance()

    def _sum_now(self, bucket: Bucket, source: Array, factor: float = 1.0) -> None:
        """Sum this rank's share of a bucket, a few columns at a time, while the next ones travel; `source` is all of
        it in a row, maybe but for the end."""
        self._await_header()
        assert self._scale is not None
        size, most = self.group.size, min(bucket.share, _COLUMNS)
        under_way: tuple[Pending, Array, Array] | None = None
        for begin in range(0, bucket.share, most):
            width = min(most, bucket.share - begin)
            out, rows = empty((size, width), bucket.dtype), empty((size, width), bucket.wire)
            for rank in range(size):
                piece = source[rank * bucket.share + begin :][:width]
                np.multiply(piece, bucket.dtype.type(factor), out=out[rank, : len(piece)])
                out[rank, len(piece) :] = 0
            sent = out
            if bucket.wire != bucket.dtype:
                sent = empty(out.shape, bucket.wire)
                convert(sent, out)
            pending = self.group.exchange(sent, rows, f"sum of bucket {bucket.number}")
            self._count(4 * out.nbytes)
            if under_way is not None:
                self._received(*under_way)
            under_way = pending, rows, bucket.own[begin : begin + width]
        if under_way is not None:
            self._received(*under_way)
        bucket.phase = 3
        bucket.close()

    def _sum_rows(self, bucket: Bucket, gradient: SparseGrad, factor: float) -> None:
        """Sum this rank's rows of a table from those that all ranks have."""
        self._await_header()
        assert self._scale is not None
        rows, own = gradient.rows._data, bucket.own.reshape(-1, bucket.width)
        rows = rows[: np.count_nonzero(rows >= 0)]
        own[...] = 0
        routes = Routes(self.group, rows, len(own), f"rows of bucket {bucket.number}")
        self._count(routes.give(gradient.values._data, own, factor, bucket.wire))
        own *= own.dtype.type(self._scale)
        bucket.phase = 3

    def _received(self, pending: Pending, rows: Array, own: Array) -> None:
        assert self._scale is not None
        pending.wait()
        add_rows(own, rows, self._scale)

    def _count(self, more: int = 0) -> None:
        """Look at the memory that is held."""
        self.most_held = max(self.most_held, sum(bucket.nbytes for bucket in self.buckets) + more)

    def _start(self) -> None:
        """Send the buckets that are full, in the order in which all ranks do."""
        while self._next < len(self.buckets) and not self.buckets[self._next].missing:
            if not self.buckets[self._next].phase:  # else it has been summed
                self.buckets[self._next].start()
            self._next += 1

    def _advance(self) -> bool:
        """Move all buckets on, in order: an all-gather begins only after those of the buckets before it, as on all
        other ranks."""
        assert self._scale is not None
        finished = True
        for bucket in self.buckets:
            finished = bucket.advance(self._scale, gather=self.gather) and finished
            if bucket.phase < 2:
                return False
        return finished

    def _joined(self, index: int) -> SparseGrad:
        """The sum of a sparse gradient over the ranks, in their order."""
        assert self._scale is not None
        parameter, mine = self.parameters[index], self._found.get(index)
        values = np.empty((0, parameter.shape[1]), parameter.dtype) if mine is None else mine.values._data
        rows = np.empty(0, np.int64) if mine is None else mine.rows._data
        with no_grad():
            pairs = zip(self.group.ragged(rows), self.group.ragged(values), strict=True)
            parts = [SparseGrad(parameter.shape, Tensor._wrap(r), Tensor._wrap(v)) for r, v in pairs]
            total: Any = parts[0]
            for part in parts[1:]:
                total = total + part
            return total * self._scale  # type: ignore[no-any-return]

    def _lay_out(self, sparse: set[int], *, kept: bool) -> None:
        """Buckets for what no rank has as rows, the last parameters first, as their gradients come; then what was kept
        of the first step. Parameters of the bucket's own dtype are apart from others."""
        self.sparse = sparse
        open_buckets: dict[tuple[DType, bool], Bucket] = {}
        for index in reversed(range(len(self.parameters))):
            if index in self.sparse:
                continue
            parameter = self.parameters[index]
            wide = parameter.dtype in (float64, np.dtype(np.complex128))
            dtype = float64 if wide else float32
            size = parameter.size * (2 if parameter.dtype.kind == "c" else 1)
            if index in self.tables and size * dtype.itemsize > self.most:
                self.buckets.append(Bucket(dtype, len(self.buckets), parameter.shape[1]))
                self.places[index] = self.buckets[-1].add(index, size)
                continue
            kind = dtype, kept or parameter.dtype == dtype
            bucket = open_buckets.get(kind)
            if bucket is None or (bucket.length and (bucket.length + size) * dtype.itemsize > self.most):
                bucket = open_buckets[kind] = Bucket(dtype, len(self.buckets))
                self.buckets.append(bucket)
            self.places[index] = bucket.add(index, size)
        self._allocate(kept)
        self._laid_out, self._next, overlap, self.overlap = True, 0, self.overlap, False
        for index, gradient in self._early.items():
            self.take(index, gradient, weighted=True)
        self._early, self.overlap = {}, overlap

    def _allocate(self, kept: bool) -> None:
        """Memory of the buckets: of all ranks together where that can be."""
        for bucket in self.buckets:
            bucket.divide(self.group)
        sizes = [(self.group.size + 1) * self.group.size * b.share * b.dtype.itemsize for b in self.buckets]
        near = kept and bool(sizes) and self.group.size > 1 and self.group.one_machine and self.wire == float32
        area = shared(self.group, sum(sizes)) if near else None
        if area is None:
            for bucket in self.buckets:
                bucket.allocate(self.wire if bucket.dtype == float32 else bucket.dtype, kept=kept)
            return
        parts = np.split(area, np.cumsum(sizes)[:-1])
        self.buckets = [SharedBucket(bucket, part) for bucket, part in zip(self.buckets, parts, strict=True)]
        self.places = {i: replace(at, bucket=self.buckets[at.bucket.number]) for i, at in self.places.items()}


def _sparse(gradient: Tensor, factor: float) -> SparseGrad:
    """A gradient as rows, in memory of its own."""
    if not isinstance(gradient, SparseGrad):
        raise UsageError(
            f"a gradient {gradient.shape} was to come as rows, as that of a sparse embedding, and is dense"
        )
    return SparseGrad(gradient.shape, Tensor(gradient.rows.data.copy()), _scaled(gradient.values, factor))


def _owned(gradient: Tensor, factor: float) -> Tensor:
    """A gradient times a factor, in memory of its own."""
    return _sparse(gradient, factor) if isinstance(gradient, SparseGrad) else _scaled(gradient, factor)


def _scaled(x: Tensor, factor: float) -> Tensor:
    """In NumPy: a program that is running may have called."""
    values = x._data.astype(float32) if x.dtype == bfloat16 else x._data
    return Tensor._wrap(np.multiply(values, values.dtype.type(factor)))
