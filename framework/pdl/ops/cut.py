"""Arrays that are cut over processes: what puts the parts together in programs of tensor parallel steps.

A value is whole on every process, or each has its part of one axis. Gradients are as their values: those of whole ones
are complete on every process, those of parts are of that part. The sum over processes of what each has of a whole value
and the identity are each other's gradient (f and g of Megatron-LM, Shoeybi et al., arXiv 1909.08053), as are joining
parts and taking one. An op finds the other processes by its attribute `across`, which is no part of its value; where it
has none a process stands alone.

An axis may lie in several blocks (`groups`), of each of which a process has its part: queries, keys and values of all
heads side by side are three blocks, the channels of every pixel of a flattened image one.
"""

from __future__ import annotations

from typing import Any, ClassVar, Protocol, Self, cast

import numpy as np

from pdl.dtype import Array, bool_
from pdl.errors import IndexRangeError, ShapeError
from pdl.kernels.copies import copy
from pdl.ops.attributes import Int64, Length, Step
from pdl.ops.base import Arrays, Op, Spec, apply, not_differentiable
from pdl.ops.checks import check_floating
from pdl.ops.moments import Joined
from pdl.ops.segment import check_ids
from pdl.tensor import Tensor


class Parts(Protocol):
    """Processes that have the parts of one array; all make the same calls in the same order."""

    def total(self, mine: Array) -> Array:
        """The sum of the arrays of all."""

    def rows(self, mine: Array) -> Array:
        """[processes, ...]: the arrays of all, which have one shape."""


class _Cut(Joined, abstract=True):
    """An op that all processes run together."""

    across: ClassVar[Parts | None] = None  # type: ignore[assignment]

    def alike(self, kind: type[Op], *attributes: Any) -> Self:
        """Another op among the same processes."""
        return cast(Self, kind(*attributes).over(self.across))  # type: ignore[attr-defined]


class SumOver(_Cut):
    """The sum of x over all processes, of which each has an addend, in their order; the gradient goes to each."""

    def infer(self, x: Spec) -> Spec:
        check_floating("sum_over", x=x)
        return x

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        copy(outs[0], ins[0] if self.across is None else self.across.total(np.ascontiguousarray(ins[0])))

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        return g


class SpreadOver(_Cut):
    """x as it is, for ops that compute parts of something whole from it; its gradient is the sum of theirs."""

    def infer(self, x: Spec) -> Spec:
        check_floating("spread_over", x=x)
        return x

    def view(self, x: Array) -> Array:
        return x

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        return cast(Tensor, apply(self.alike(SumOver), g))


class _Part(_Cut, abstract=True):
    """`part` of `parts` of an axis that lies in `groups` blocks."""

    axis: Length
    parts: Step
    part: Length = 0
    groups: Step = 1

    def check(self) -> None:
        super().check()
        if self.part >= self.parts:
            raise ShapeError(f"{type(self).__name__}: part {self.part} of {self.parts}")

    def resized(self, x: Spec, times: int, by: int) -> Spec:
        """x with its axis `times` as long, divided `by`."""
        if self.axis >= len(x.shape) or x.shape[self.axis] % (self.groups * by):
            raise ShapeError(
                f"{type(self).__name__}: axis {self.axis} of {x.shape} does not have {self.groups} blocks of {by} parts"
            )
        return Spec((*x.shape[: self.axis], x.shape[self.axis] * times // by, *x.shape[self.axis + 1 :]), x.dtype)


class JoinParts(_Part):
    """The parts of x of all processes along `axis`; the gradient is the part of this one."""

    def infer(self, x: Spec) -> Spec:
        return self.resized(x, self.parts, 1)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        x = np.ascontiguousarray(ins[0])
        rows = x[None] if self.across is None else self.across.rows(x)
        copy(outs[0], joined(rows, self.axis, self.groups))

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        return cast(Tensor, apply(self.alike(TakePart, self.axis, self.parts, self.part, self.groups), g))


class TakePart(_Part):
    """This process's part of x along `axis`; the gradient is that of all parts, joined."""

    native_bf16 = True

    def infer(self, x: Spec) -> Spec:
        return self.resized(x, 1, self.parts)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        copy(outs[0], taken(ins[0], self.axis, self.parts, self.part, self.groups))

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        return cast(Tensor, apply(self.alike(JoinParts, self.axis, self.parts, self.part, self.groups), g))


class OwnRows(Op):
    """Numbers of rows [first, first + count) of a table of `rows`: those counted from `first`, 0 for others, and which
    they are. `ignored` is no number of a row."""

    first: Length
    count: Step
    rows: Step
    ignored: Int64 = -1
    vjp = not_differentiable("numbers of rows are integers")

    def infer(self, index: Spec) -> tuple[Spec, ...]:
        check_ids("own_rows", "index", index)
        return index, Spec(index.shape, bool_)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        index, ignored = ins[0], ins[0] == self.ignored
        wrong = ((index < 0) | (index >= self.rows)) & ~ignored
        if wrong.any():
            raise IndexRangeError(f"index {index[wrong].flat[0]} is outside the {self.rows} rows of the table")
        own = (index >= self.first) & (index < self.first + self.count) & ~ignored
        outs[1][...] = own
        outs[0][...] = np.where(own, index - self.first, 0)


def joined(rows: Array, axis: int, groups: int) -> Array:
    """Parts [parts, ...] of an axis in `groups` blocks as one array."""
    parts, *shape = rows.shape
    blocks = rows.reshape(parts, *shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 :])
    whole = np.moveaxis(blocks, 0, axis + 1)
    return whole.reshape(*shape[:axis], parts * shape[axis], *shape[axis + 1 :])


def taken(x: Array, axis: int, parts: int, part: int, groups: int) -> Array:
    """One part of an axis in `groups` blocks."""
    shape = x.shape
    blocks = x.reshape(*shape[:axis], groups, parts, shape[axis] // (groups * parts), *shape[axis + 1 :])
    return np.take(blocks, part, axis=axis + 1).reshape(*shape[:axis], shape[axis] // parts, *shape[axis + 1 :])
