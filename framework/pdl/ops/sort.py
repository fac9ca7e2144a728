"""Order: sort, argsort, topk, searchsorted; and unique, whose output shape depends on values."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import numpy as np

from pdl.dtype import Array, bfloat16, int64, kind
from pdl.errors import DtypeError, ShapeError
from pdl.ops.attributes import Axis, Length
from pdl.ops.base import Arrays, Op, Spec, apply, not_differentiable
from pdl.ops.cast import as_tensors
from pdl.ops.checks import normalize_axis
from pdl.ops.index import gather, take
from pdl.tensor import Tensor, TensorLike, as_tensor


class ArgSort(Op):
    """Indices that sort x along `axis`, equal elements in their order; NaN counts as the largest."""

    axis: Axis = -1
    descending: bool = False
    vjp = not_differentiable("indices are integers; sort() carries the gradient")

    def infer(self, x: Spec) -> Spec:
        _check_ordered("argsort", x)
        normalize_axis("argsort", self.axis, len(x.shape))
        return Spec(x.shape, int64)

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        x = np.moveaxis(ins[0], self.axis, -1)
        np.moveaxis(outs[0], self.axis, -1)[...] = (
            _descending(x) if self.descending else np.argsort(x, -1, kind="stable")
        )


def _descending(x: Array) -> Array:
    """The stable order, largest first: sort the reversed rows and reverse the answer."""
    return x.shape[-1] - 1 - np.argsort(x[..., ::-1], -1, kind="stable")[..., ::-1]


def _check_ordered(name: str, x: Spec) -> None:
    if kind(x.dtype) == "c":
        raise DtypeError(f"{name}: {x.dtype.name} has no order; sort by abs or real")


class ArgTopK(Op):
    """Indices of the k largest (or smallest) elements along `axis`, best first, equal ones in their order."""

    k: Length
    axis: Axis = -1
    largest: bool = True
    vjp = not_differentiable("indices are integers; topk() carries the gradient")

    def infer(self, x: Spec) -> Spec:
        _check_ordered("topk", x)
        axis = normalize_axis("topk", self.axis, len(x.shape))
        if not 0 <= self.k <= x.shape[axis]:
            raise ShapeError(f"topk: k is {self.k}, axis {axis} of {x.shape} has {x.shape[axis]} elements")
        return Spec((*x.shape[:axis], self.k, *x.shape[axis + 1 :]), int64)

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        x, n = np.moveaxis(ins[0], self.axis, -1), ins[0].shape[self.axis]
        some = self._first(x, n) if 0 < self.k * 8 < n > 64 else None  # only part of a long row need be sorted
        if some is None:
            some = np.broadcast_to(np.arange(n), x.shape)
        part = np.take_along_axis(x, some, -1)
        order = _descending(part) if self.largest else np.argsort(part, -1, kind="stable")
        np.moveaxis(outs[0], self.axis, -1)[...] = np.take_along_axis(some, order[..., : self.k], -1)

    def _first(self, x: Array, n: int) -> Array | None:
        """Where the k best of each row stand, in their order; of those equal to the last one, the first. None where
        that one is a NaN."""
        cut = n - self.k if self.largest else self.k - 1
        last = np.partition(x, cut, -1)[..., cut : cut + 1]
        if (last != last).any():
            return None
        better, equal = ~(x <= last) if self.largest else x < last, x == last  # a NaN is larger than any number
        room = self.k - np.count_nonzero(better, axis=-1, keepdims=True)
        if (np.count_nonzero(equal, axis=-1, keepdims=True) > room).any():
            equal &= np.cumsum(equal, axis=-1) <= room
        return np.nonzero(better | equal)[-1].reshape(*x.shape[:-1], self.k)


class SearchSorted(Op):
    """Places where v would enter the ascending 1-D x and keep it sorted."""

    side: str = "left"
    vjp = not_differentiable("indices are integers")

    def infer(self, x: Spec, v: Spec) -> Spec:
        if len(x.shape) != 1 or x.dtype != v.dtype:
            raise ShapeError(
                f"searchsorted: x must be 1-D and of v's dtype {v.dtype.name}; it is {x.shape} {x.dtype.name}"
            )
        if self.side not in ("left", "right"):
            raise ShapeError(f"searchsorted: side {self.side!r} is neither 'left' nor 'right'")
        return Spec(v.shape, int64)

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        outs[0][...] = np.searchsorted(ins[0], ins[1], cast(Any, self.side))


class Unique(Op):
    """The distinct elements of x, ascending, each NaN one of its own; the index at which each occurs first; the index
    of each element of x among them; how often each occurs."""

    dynamic = True
    vjp = not_differentiable("which elements are distinct is piecewise constant")

    def run(self, ins: tuple[Any, ...]) -> Arrays:
        x = ins[0].astype(np.float32) if ins[0].dtype == bfloat16 else ins[0]
        values, first, inverse, counts = np.unique(
            x, return_index=True, return_inverse=True, return_counts=True, equal_nan=False
        )
        return values.astype(ins[0].dtype), first, inverse.reshape(x.shape), counts


# -- the public functions ----------------------------------------------------------------------------------------------
def argsort(x: TensorLike, axis: int = -1, *, descending: bool = False, stable: bool = True) -> Tensor:
    """Indices (int64) that sort `x` along `axis`; NaN counts as the largest. Equal elements keep their order, with or
    without `stable`."""
    return cast(Tensor, apply(ArgSort(axis, descending), as_tensor(x)))


def sort(x: TensorLike, axis: int = -1, *, descending: bool = False, stable: bool = True) -> Tensor:
    """`x` sorted along `axis`; NaN counts as the largest. Equal elements keep their order, with or without
    `stable`."""
    x = as_tensor(x)
    return gather(x, argsort(x, axis=axis, descending=descending), axis=axis)


def topk(x: TensorLike, k: int, *, axis: int = -1, largest: bool = True) -> tuple[Tensor, Tensor]:
    """The `k` largest (or smallest) elements along `axis`, best first, and their indices (int64); of equal elements the
    first ones."""
    x = as_tensor(x)
    index = cast(Tensor, apply(ArgTopK(k, axis, largest), x))
    return gather(x, index, axis=axis), index


def searchsorted(x: TensorLike, v: TensorLike, *, side: str = "left", sorter: TensorLike | None = None) -> Tensor:
    """Indices (int64) at which `v` would be inserted into the ascending 1-D `x`: before equal elements, or after
    ("right"). `sorter`: the indices that sort an `x` which is not ascending."""
    x, v = as_tensors(x, v)
    return cast(Tensor, apply(SearchSorted(side), x if sorter is None else take(x, sorter, axis=0), v))


class UniqueAll(NamedTuple):
    """What `unique_all` finds."""

    values: Tensor
    indices: Tensor
    inverse_indices: Tensor
    counts: Tensor


class UniqueCounts(NamedTuple):
    """What `unique_counts` finds."""

    values: Tensor
    counts: Tensor


class UniqueInverse(NamedTuple):
    """What `unique_inverse` finds."""

    values: Tensor
    inverse_indices: Tensor


def unique(x: TensorLike) -> Tensor:
    """The distinct elements of `x`, ascending, 1-D: `unique_values`."""
    return unique_values(x)


def unique_all(x: TensorLike) -> UniqueAll:
    """The distinct `values` of `x`, ascending (1-D); the `indices` in the flattened `x` at which each occurs first; the
    `inverse_indices`, in x's shape, of each element among the values; their `counts`. Every NaN is a value of its own.
    """
    return UniqueAll(*apply(Unique(), as_tensor(x)))


def unique_counts(x: TensorLike) -> UniqueCounts:
    """The distinct `values` of `x`, ascending, and their `counts`."""
    found = unique_all(x)
    return UniqueCounts(found.values, found.counts)


def unique_inverse(x: TensorLike) -> UniqueInverse:
    """The distinct `values` of `x`, ascending, and the `inverse_indices`, in x's shape, of each element among them."""
    found = unique_all(x)
    return UniqueInverse(found.values, found.inverse_indices)


def unique_values(x: TensorLike) -> Tensor:
    """The distinct elements of `x`, ascending, 1-D. Every NaN is a value of its own."""
    return unique_all(x).values


__all__ = [
    "argsort", "searchsorted", "sort", "topk", "unique", "unique_all", "unique_counts", "unique_inverse",
    "unique_values",
]  # fmt: skip
