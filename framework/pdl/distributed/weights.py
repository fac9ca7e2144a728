"""`ShardedWeights`: each rank keeps its share of every weight, and has all of one only while it is used (ZeRO stage 3:
Rajbhandari et al., arXiv 1910.02054)."""

from __future__ import annotations

from functools import partial

import numpy as np

from pdl.distributed.reduction import Bucket, Reduction
from pdl.dtype import Array
from pdl.kernels.memory import empty
from pdl.program.feeding import Block, Feed, Seat, feed
from pdl.program.ir import Program, Value


class ShardedWeights:
    """The parameters of a reduction, in the shares of its buckets. Those of another dtype than their bucket, and those
    whose gradients are rows, stay whole.

        take()       whole -> shares; compiled programs then gather a bucket before the first op that reads of it, and
                     drop it after the last, in the forward part and again in the backward part
        restore()    shares -> whole, of which every rank makes the call
        release()    drop what is whole; the shares hold what is true

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
        self.whole = True

    def take(self) -> None:
        """This rank's shares of the weights as they are now."""
        if not self.whole:
            return
        for bucket in self.buckets:
            own = self.own[bucket.number]
            own[...] = 0
            for index in bucket.members:
                place = self.reduction.places[index]
                lies = place.piece(self.group.rank)
                place.mine(own, self.group.rank)[...] = self.reduction.parameters[index]._data.reshape(-1)[lies]
        self.release()

    def release(self) -> None:
        """Drop whole weights."""
        self.whole = False
        for bucket in self.buckets:
            for index in bucket.members:
                p = self.reduction.parameters[index]
                p._data = np.broadcast_to(np.array(np.nan, p.dtype), p.shape)

    def restore(self) -> None:
        """Whole weights again."""
        if self.whole:
            return
        self.whole = True
        for bucket in self.buckets:
            row = empty((bucket.group.size * bucket.share,), bucket.dtype)
            self._gather(bucket, row)
            for index in bucket.members:
                p, place = self.reduction.parameters[index], self.reduction.places[index]
                p._data = row[place.begin : place.end].reshape(p.shape)

    def feeds(self, program: Program) -> dict[Value, Feed]:
        """Let a program read the weights from memory that is filled while it runs."""
        parameters, places = self.reduction.parameters, self.reduction.places
        seats = {
            id(parameters[i]): Seat(self.blocks[b.number], places[i].begin) for b in self.buckets for i in b.members
        }
        return feed(program, seats)

    @property
    def nbytes(self) -> int:
        """Memory of the shares."""
        return sum(own.nbytes for own in self.own.values())

    def _fill(self, bucket: Bucket, row: Array) -> None:
        """All weights of a bucket, from the shares of all ranks; from the whole ones where they are there."""
        if not self.whole:
            self._gather(bucket, row)
            return
        for index in bucket.members:
            place = self.reduction.places[index]
            row[place.begin : place.end] = self.reduction.parameters[index]._data.reshape(-1)

    def _gather(self, bucket: Bucket, row: Array) -> None:
        self.group.gather(self.own[bucket.number], row, f"weights of bucket {bucket.number}").wait()
