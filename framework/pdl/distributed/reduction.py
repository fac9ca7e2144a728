"""`Reduction`: the mean gradient over all ranks, exchanged bucket by bucket while the backward part goes on.

Each rank sums one share of every bucket, in the order of the ranks, and hands it to all (a reduce-scatter, then an
all-gather: 2 (W - 1) / W of the bytes cross the wire, Patarasuk & Yuan, 2009). So every rank gets the same bits, run
after run, whatever the network does; and shares are where optimiser state can be divided, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from pdl.distributed.group import Group, Pending
from pdl.dtype import DType, bfloat16, float32, float64
from pdl.errors import UsageError
from pdl.kernels.copies import convert
from pdl.kernels.memory import empty
from pdl.ops.sparse import SparseGrad
from pdl.tensor import Tensor, no_grad

_ALIGN = 16  # elements


@dataclass
class Header:
    """What all ranks say of a step before their gradients.

    weight, loss   sums over the ranks: of the weights of their losses, and of weight times loss
    stop           whether a rank wants to end
    """

    weight: float
    loss: float
    stop: bool


@dataclass
class Place:
    """Where the gradient of a parameter lies in its bucket."""

    bucket: Bucket
    begin: int
    end: int

    def piece(self, rank: int) -> slice:
        """The part of the parameter that a rank sums."""
        share = self.bucket.memory.shape[1]
        first, last = max(self.begin, rank * share), min(self.end, (rank + 1) * share)
        return slice(first - self.begin, last - self.begin) if first < last else slice(0, 0)


class Bucket:
    """Gradients that travel together.

    memory   [size, share]: row r is what rank r sums
    """

    def __init__(self, dtype: DType) -> None:
        self.dtype, self.members, self.length = dtype, list[int](), 0

    def add(self, index: int, size: int) -> Place:
        """A place for a parameter's gradient."""
        begin = self.length
        self.members.append(index)
        self.length += -(-size // _ALIGN) * _ALIGN
        return Place(self, begin, begin + size)

    def allocate(self, group: Group, wire: DType) -> None:
        """The memory, now that its size is known."""
        self.group, self.wire = group, wire
        share = -(-self.length // (group.size * _ALIGN)) * _ALIGN
        self.memory = empty((group.size, share), self.dtype)
        self.flat = self.memory.reshape(-1)
        self.flat[...] = 0  # also between the gradients: what travels is finite
        self.incoming = empty(self.memory.shape, wire)
        self.outgoing = self.memory if wire == self.dtype else empty(self.memory.shape, wire)
        self.reset()

    def reset(self) -> None:
        """Before a step."""
        self.missing, self.phase = set(self.members), 0
        self.pending: Pending | None = None

    def start(self) -> None:
        """Send every rank its share."""
        if self.outgoing is not self.memory:
            convert(self.outgoing, self.memory)
        self.pending = self.group.exchange(self.outgoing, self.incoming)
        self.phase = 1

    def share(self) -> None:
        """Send what this rank's share now holds to all, as it is."""
        if self.incoming.dtype != self.dtype:
            self.incoming = empty(self.memory.shape, self.dtype)
        self.pending = self.group.gather(self.memory[self.group.rank], self.incoming, later=True)

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
                self._sum(scale)
                if gather:
                    self._gather()
                else:
                    self.phase = 3
            else:
                self._finish()
        return self.phase == 3

    def _sum(self, scale: float) -> None:
        """The share of this rank, times `scale`."""
        mine = self.memory[self.group.rank]
        if self.incoming.dtype == self.dtype:
            np.add(self.incoming[0], self.incoming[1], out=mine)
            for row in self.incoming[2:]:
                mine += row
        else:
            rows = empty(self.memory.shape, self.dtype)
            convert(rows, self.incoming)
            rows.sum(axis=0, out=mine)
        mine *= mine.dtype.type(scale)

    def _gather(self) -> None:
        """The sums of this rank to all."""
        mine = self.memory[self.group.rank]
        if self.incoming.dtype != self.dtype:
            rounded = empty(mine.shape, self.wire)
            convert(rounded, mine)
            mine = rounded
        self.pending = self.group.gather(mine, self.incoming, later=True)
        self.phase = 2

    def _finish(self) -> None:
        if self.incoming.dtype == self.dtype:
            self._swap()
        else:
            convert(self.memory, self.incoming)
        self.phase = 3

    def _swap(self) -> None:
        """What has come takes the place of what was there."""
        self.memory, self.incoming = self.incoming, self.memory
        self.flat = self.memory.reshape(-1)
        if self.wire == self.dtype:
            self.outgoing = self.memory


class Reduction:
    """Means of gradients over the ranks of a group, of the parameters given, in steps of

        begin(weight, loss, used)     on every rank; where it has no samples, with weight 0
        take(i, gradient)             of each parameter that is used here, any order; times its factor it is summed
        finish()                      the header; then `gradient(i)` is sum_r weight_r g_r / sum_r weight_r

    wire      dtype on the wire of float32 gradients: float32, or bfloat16, which halves the bytes; sums are float32
    megabytes of a bucket; a parameter that is larger has one of its own
    overlap   buckets travel as soon as they are full; otherwise all at the end
    gather    every rank gets all sums; otherwise each keeps those of its share (`Place.piece`)
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
    ) -> None:
        self.group, self.parameters, self.overlap, self.gather = group, list(parameters), overlap, gather
        self.wire, self.most = bfloat16 if wire == "bf16" else float32, int(megabytes * 2**20)
        self.places: dict[int, Place] = {}
        self.buckets: list[Bucket] = []
        self.sparse: set[int] = set()
        self.started = False  # a step under way
        self._laid_out = False
        self._early: dict[int, Tensor] = {}  # of the first step, before the buckets are known

    # -- a step --------------------------------------------------------------------------------------------------------
    def begin(self, weight: float, loss: float, used: Sequence[bool], *, stop: bool = False) -> None:
        """What this rank's gradients are a mean over, its loss, and which parameters they are of."""
        self._mine = np.array([weight, loss * weight if weight else 0.0, stop, *used], np.float64)
        self._all = np.empty((self.group.size, len(self._mine)), np.float64)
        self._header = self.group.gather(self._mine, self._all)
        self._scale: float | None = None
        self._weight, self._found = weight, dict[int, SparseGrad]()
        self.started = True
        for bucket in self.buckets:
            bucket.reset()
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
            self._lay_out()
        for bucket in self.buckets:
            for index in bucket.missing:
                place = self.places[index]
                bucket.flat[place.begin : place.end] = 0
            bucket.missing = set()
        self._start()
        self.group.wait_for(self._advance)
        self._found = {index: self._joined(index) for index in sorted(self.sparse)}
        total = self._all.sum(axis=0)
        self._used = total[3:] > 0
        return Header(float(total[0]), float(total[1]), bool(total[2]))

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
        values = place.bucket.flat[place.begin : place.end]
        if parameter.dtype.kind == "c":
            values = values.view(parameter.dtype)
        return Tensor._wrap(values.reshape(parameter.shape))

    def used(self, index: int) -> bool:
        """Whether a rank has a gradient of a parameter in this step."""
        return bool(self._used[index])

    # -- its parts -----------------------------------------------------------------------------------------------------
    def _await_header(self) -> None:
        if self._scale is None:
            self._header.wait()
            total = float(self._all[:, 0].sum())
            self._scale = 1.0 / total if total else 0.0

    def _put(self, index: int, gradient: Tensor, factor: float) -> None:
        place = self.places[index]
        if isinstance(gradient, SparseGrad):
            gradient = gradient.to_dense()
        target = place.bucket.flat[place.begin : place.end]
        values = gradient._data
        if values.dtype.kind == "c":
            target = target.view(values.dtype)
        target = target.reshape(values.shape)
        if values.dtype == bfloat16:
            convert(target, np.ascontiguousarray(values))
            target *= target.dtype.type(factor)
        else:
            np.multiply(values, values.dtype.type(factor), out=target)
        place.bucket.missing.discard(index)
        if self.overlap and not place.bucket.missing:
            self._start()
            if self._scale is None and self._header.done():
                self._await_header()
            if self._scale is not None:
                self._advance()

    def _start(self) -> None:
        """Send the buckets that are full, in the order in which all ranks do."""
        while self._next < len(self.buckets) and not self.buckets[self._next].missing:
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

    def _lay_out(self) -> None:
        """Buckets for what no rank has as rows, the last parameters first, as their gradients come; then what was kept
        of the first step."""
        mine = np.array([isinstance(self._early.get(i), SparseGrad) for i in range(len(self.parameters))], np.uint8)
        self.sparse = set(np.flatnonzero(self.group.rows(mine).any(axis=0)).tolist())
        open_buckets: dict[DType, Bucket] = {}
        for index in reversed(range(len(self.parameters))):
            if index in self.sparse:
                continue
            parameter = self.parameters[index]
            wide = parameter.dtype in (float64, np.dtype(np.complex128))
            dtype = float64 if wide else float32
            size = parameter.size * (2 if parameter.dtype.kind == "c" else 1)
            bucket = open_buckets.get(dtype)
            if bucket is None or (bucket.length and (bucket.length + size) * dtype.itemsize > self.most):
                bucket = open_buckets[dtype] = Bucket(dtype)
                self.buckets.append(bucket)
            self.places[index] = bucket.add(index, size)
        for bucket in self.buckets:
            bucket.allocate(self.group, self.wire if bucket.dtype == float32 else bucket.dtype)
        self._laid_out, self._next, overlap, self.overlap = True, 0, self.overlap, False
        for index, gradient in self._early.items():
            self.take(index, gradient, weighted=True)
        self._early, self.overlap = {}, overlap


def _sparse(gradient: Tensor, factor: float) -> SparseGrad:
    """A gradient as rows, in memory of its own."""
    if not isinstance(gradient, SparseGrad):
        raise UsageError(f"a gradient {gradient.shape} came as rows in the first step and is dense in this one")
    return SparseGrad(gradient.shape, Tensor(gradient.rows.data.copy()), _scaled(gradient.values, factor))


def _owned(gradient: Tensor, factor: float) -> Tensor:
    """A gradient times a factor, in memory of its own."""
    return _sparse(gradient, factor) if isinstance(gradient, SparseGrad) else _scaled(gradient, factor)


def _scaled(x: Tensor, factor: float) -> Tensor:
    """In NumPy: a program that is running may have called."""
    values = x._data.astype(float32) if x.dtype == bfloat16 else x._data
    return Tensor._wrap(np.multiply(values, values.dtype.type(factor)))
