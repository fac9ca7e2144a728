"""`ShardedWeights`: each rank keeps its share of every weight, and has all of one only while it is used (ZeRO stage 3:
Rajbhandari et al., arXiv 1910.02054)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from pdl.distributed.reduction import Bucket, Reduction
from pdl.distributed.rows import Routes
from pdl.dtype import Array, DType
from pdl.errors import ShapeError
from pdl.kernels import rows as kernels
from pdl.kernels import update
from pdl.kernels.memory import empty
from pdl.ops.embedding import Embedding, ServedEmbedding, Source
from pdl.optim import EMA
from pdl.program.feeding import Block, Feed, Seat, check_inside, feed
from pdl.program.ir import Node, Program, Value
from pdl.tensor import Tensor


class ShardedWeights:
    """The parameters of a reduction, in the shares of its buckets. Those of another dtype than their bucket, and those
    whose gradients are rows, stay whole.

        take()       whole -> shares; compiled programs then gather a bucket before the first op that reads of it, and
                     drop it after the last, in the forward part and again in the backward part
        restore()    shares -> whole, of which every rank makes the call
        release()    drop what is whole; the shares hold what is true

    Tables that a program looks rows up in, and does nothing else with, are whole nowhere: these rows alone are asked
    for, where the reduction has divided the table by rows (`tables`: the rows of a parameter, by id).

    Without its numbers a parameter has shape and dtype, and reads as NaN.
    """

    def __init__(self, reduction: Reduction) -> None:
        self.reduction = reduction
        self.group = reduction.group.part(range(reduction.group.size))  # its gathers have an order of their own
        self.buckets = [
            b for b in reduction.buckets if all(reduction.parameters[i].dtype == b.dtype for i in b.members)
        ]
        self.own = {bucket.number: empty((bucket.share,), bucket.dtype) for bucket in self.buckets}
        self.blocks = {b.number: Block(b.group.size * b.share, b.dtype, partial(self._fill, b)) for b in self.buckets}
        self.tables = {
            id(reduction.parameters[b.members[0]]): Rows(self, b) for b in self.buckets if b.width and b.group.size > 1
        }
        self._empty: dict[int, Array] = {}  # what a parameter is without its numbers
        self.whole, self.most_asked = True, 0  # bytes

    def take(self) -> None:
        """This rank's shares of the weights as they are now."""
        if not self.whole:
            return
        for bucket in self.buckets:
            whole = {index: self.reduction.parameters[index]._data for index in bucket.members}
            self.own[bucket.number][...] = self.cut(bucket, whole)
        self.release()

    def release(self) -> None:
        """Drop whole weights."""
        self.whole = False
        for bucket in self.buckets:
            for index in bucket.members:
                p = self.reduction.parameters[index]
                if index not in self._empty:
                    self._empty[index] = np.broadcast_to(np.array(np.nan, p.dtype), p.shape)
                p._data = self._empty[index]

    def restore(self) -> None:
        """Whole weights again."""
        if not self.whole:
            self.show(self.own)

    def cut(self, bucket: Bucket, arrays: Mapping[int, Array]) -> Array:
        """This rank's share of arrays like the parameters of a bucket, which are given by their numbers."""
        own = empty((bucket.share,), bucket.dtype)
        own[...] = 0
        for index in bucket.members:
            place = self.reduction.places[index]
            place.mine(own, self.group.rank)[...] = arrays[index].reshape(-1)[place.piece(self.group.rank)]
        return own

    def joined(self, shares: Mapping[int, Array]) -> Iterator[tuple[int, Array]]:
        """Whole arrays like the parameters, by their numbers, from what each rank has of every bucket."""
        for bucket in self.buckets:
            row = empty((bucket.group.size * bucket.share,), bucket.dtype)
            self._gather(bucket, row, shares)
            for index in bucket.members:
                place = self.reduction.places[index]
                yield index, row[place.begin : place.end].reshape(self.reduction.parameters[index].shape)

    def show(self, shares: Mapping[int, Array]) -> None:
        """Let the parameters be what these shares make: their own, or averages."""
        self.whole = True
        for index, array in self.joined(shares):
            self.reduction.parameters[index]._data = array

    def prepare(self, program: Program) -> None:
        """Let lookups of a program ask for the rows of tables that nothing else reads."""
        readers: dict[Value, list[Node]] = {}
        for node in program.nodes:
            for value in node.inputs:
                if value is not None:
                    readers.setdefault(value, []).append(node)
        for value in program.captures:
            rows, found = self.tables.get(id(value.tensor)), readers.get(value, [])
            if rows is None or any(type(node.op) is not Embedding for node in found):
                continue
            for node in found:
                node.op = ServedEmbedding(node.op.padding_idx, True).over(rows)  # type: ignore[attr-defined, call-arg]

    def feeds(self, program: Program) -> dict[Value, Feed]:
        """Let a program read the weights from memory that is filled while it runs."""
        parameters, places = self.reduction.parameters, self.reduction.places
        asked = {node.inputs[0] for node in program.nodes if isinstance(getattr(node.op, "source", None), Rows)}
        check_inside(program, [v for v in asked if v is not None])
        apart = {id(v.tensor) for v in asked if v is not None}
        seats = {
            id(parameters[i]): Seat(self.blocks[b.number], places[i].begin)
            for b in self.buckets
            for i in b.members
            if id(parameters[i]) not in apart
        }
        return feed(program, seats)

    @property
    def nbytes(self) -> int:
        """Memory of the shares."""
        return sum(own.nbytes for own in self.own.values())

    def _fill(self, bucket: Bucket, row: Array) -> None:
        """All weights of a bucket, from the shares of all ranks; from the whole ones where they are there."""
        if not self.whole:
            self._gather(bucket, row, self.own)
            return
        for index in bucket.members:
            place = self.reduction.places[index]
            row[place.begin : place.end] = self.reduction.parameters[index]._data.reshape(-1)

    def _gather(self, bucket: Bucket, row: Array, shares: Mapping[int, Array]) -> None:
        self.group.gather(shares[bucket.number], row, f"weights of bucket {bucket.number}").wait()


class ShardedEMA(EMA):
    """An `EMA` that keeps averages of weights in shares as these are; `state_dict` is that of one process, and all
    ranks must ask for it, and come into `swapped` together.

    own   by number of a bucket: this rank's share of the averages
    """

    in_common = True

    def __init__(self, ema: EMA, weights: ShardedWeights) -> None:
        self.model, self.decay, self.warmup, self.updates, self.fixed = (
            ema.model, ema.decay, ema.warmup, ema.updates, ema.fixed,
        )  # fmt: skip
        self.weights, self.average = weights, dict(ema.average)
        known = {id(p): index for index, p in enumerate(weights.reduction.parameters)}
        self.names = [name for name, _ in super()._weights()]
        in_shares = {index for bucket in weights.buckets for index in bucket.members}
        self.cut = {known[id(p)]: name for name, p in self.model.named_parameters() if known.get(id(p)) in in_shares}
        self._take({index: self.average.pop(name) for index, name in self.cut.items()})

    def _take(self, averages: dict[int, Array]) -> None:
        self.own = {bucket.number: self.weights.cut(bucket, averages) for bucket in self.weights.buckets}

    def update(self) -> None:
        """Take in the present weights."""
        super().update()
        kinds: dict[DType, list[int]] = {}
        for number, own in self.own.items():
            kinds.setdefault(own.dtype, []).append(number)
        for numbers in kinds.values():
            update.ema([self.own[n] for n in numbers], [self.weights.own[n] for n in numbers], self.decay_now)

    @contextmanager
    def swapped(self) -> Iterator[None]:
        """Inside the block the model carries the averages, whole ones."""
        whole = self.weights.whole
        self.weights.take()
        with super().swapped():
            try:
                yield
            finally:
                self.weights.release()
                if whole:
                    self.weights.restore()

    def copy_to_model(self) -> None:
        """As of an `EMA`."""
        super().copy_to_model()
        self.weights.show(self.own)

    def state_dict(self) -> dict[str, Any]:
        """As of an `EMA`."""
        whole = {self.cut[index]: array for index, array in self.weights.joined(self.own)}
        average = {**self.average, **whole}
        return {**super().state_dict(), "average": {name: average[name] for name in self.names}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """As of an `EMA`."""
        whole = EMA(self.model, self.decay, warmup=self.warmup, fixed=self.fixed)
        whole.load_state_dict(state)
        self.updates = whole.updates
        self._take({index: whole.average.pop(name) for index, name in self.cut.items()})
        self.average = whole.average

    def _weights(self) -> Iterator[tuple[str, Tensor]]:
        cut = set(self.cut.values())
        return ((name, tensor) for name, tensor in super()._weights() if name not in cut)


class Rows(Source):
    """The rows of the table that is alone in a bucket."""

    def __init__(self, weights: ShardedWeights, bucket: Bucket) -> None:
        self.weights, self.bucket = weights, bucket
        self.table = weights.reduction.parameters[bucket.members[0]]

    def read(self, index: Array, out: Array, padding: int | None) -> None:
        """out[i] = row index[i], int64 [n] -> [n, C], from the ranks that have them; all make this call. The row of
        `padding` is one as the others."""
        weights, bucket = self.weights, self.bucket
        if weights.whole:
            kernels.take(out, self.table._data, index, name="embedding")
            return
        rows, places = np.unique(index, return_inverse=True)
        if len(rows) and not 0 <= rows[0] <= rows[-1] < len(self.table):
            wrong = rows[0] if rows[0] < 0 else rows[-1]
            raise ShapeError(f"embedding: index {wrong} is outside the {len(self.table)} rows")
        own = weights.own[bucket.number].reshape(-1, bucket.width)
        routes = Routes(weights.group, rows, len(own), f"rows of bucket {bucket.number}")
        weights.most_asked = max(weights.most_asked, routes.ask(own, out, places.reshape(-1)))
