"""Shape ops: most are views in eager mode (no copy); joins and rolls copy."""

from __future__ import annotations

import math
import operator
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from pdl import dims
from pdl.dtype import Array
from pdl.errors import DtypeError, ShapeError
from pdl.kernels.copies import copy
from pdl.ops.attributes import Axis, Int64, LengthOrRest
from pdl.ops.base import Arrays, Identity, Op, Spec, apply
from pdl.ops.broadcast import broadcast_to
from pdl.ops.cast import as_tensors
from pdl.ops.checks import normalize_axes, normalize_axis
from pdl.tensor import Tensor, TensorLike, as_tensor


class Clone(Op):
    """The same values in memory of their own."""

    native_bf16 = native = True

    def infer(self, x: Spec) -> Spec:
        return x

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        copy(outs[0], ins[0])

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        return g


class Reshape(Op):
    """The same elements, in row-major order, with another shape; one -1 is worked out."""

    shape: tuple[LengthOrRest, ...]
    native = True

    def infer(self, x: Spec) -> Spec:
        size, known = math.prod(x.shape), math.prod(n for n in self.shape if n != -1)
        free = self.shape.count(-1)
        if free > 1 or any(n < -1 for n in self.shape):
            raise ShapeError(f"reshape: {self.shape} may have one -1 and no other negative size")
        if (free and (not known or size % known)) or (not free and size != known):
            raise ShapeError(
                f"reshape: {x.shape} has {size} elements, {self.shape} takes {'a multiple of ' * free}{known}"
            )
        return Spec(tuple(size // known if n == -1 else n for n in self.shape), x.dtype)

    def view(self, x: Array) -> Array:
        return x.reshape(self.shape)

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        copy(outs[0].reshape(ins[0].shape), ins[0])

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        return reshape(g, x.shape)


class PermuteDims(Op):
    """y's dimension i is x's dimension axes[i]."""

    axes: tuple[Axis, ...]

    def infer(self, x: Spec) -> Spec:
        if len(self.axes) != len(x.shape) or len(normalize_axes("permute_dims", self.axes, len(x.shape))) != len(
            x.shape
        ):
            raise ShapeError(
                f"permute_dims: axes {self.axes} must name each of the {len(x.shape)} dimensions of {x.shape} once"
            )
        return Spec(tuple(x.shape[a] for a in self.axes), x.dtype)

    def view(self, x: Array) -> Array:
        return x.transpose(self.axes)

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        n = len(self.axes)
        return permute_dims(g, tuple(sorted(range(n), key=lambda i: self.axes[i] % n)))


class ExpandDims(Op):
    """A new dimension of size 1 at `axis` of the result."""

    axis: Axis = 0

    def infer(self, x: Spec) -> Spec:
        axis = normalize_axis("expand_dims", self.axis, len(x.shape) + 1)
        return Spec((*x.shape[:axis], 1, *x.shape[axis:]), x.dtype)

    def view(self, x: Array) -> Array:
        return np.expand_dims(x, self.axis)

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        return reshape(g, x.shape)


class Squeeze(Op):
    """Without the dimensions `axes`, whose sizes are 1."""

    axes: tuple[Axis, ...]

    def infer(self, x: Spec) -> Spec:
        axes = normalize_axes("squeeze", self.axes, len(x.shape))
        for axis in axes:
            if x.shape[axis] != 1:
                raise ShapeError(f"squeeze: axis {axis} of {x.shape} has size {x.shape[axis]}, not 1")
        return Spec(tuple(n for i, n in enumerate(x.shape) if i not in axes), x.dtype)

    def view(self, x: Array) -> Array:
        return x.squeeze(self.axes)

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        return reshape(g, x.shape)


class Flip(Op):
    """The order of elements reversed along `axes` (a view)."""

    axes: tuple[Axis, ...]

    def infer(self, x: Spec) -> Spec:
        normalize_axes("flip", self.axes, len(x.shape))
        return x

    def view(self, x: Array) -> Array:
        return np.flip(x, self.axes)

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        return flip(g, axis=self.axes)


class Roll(Op):
    """Elements moved `shift` places along `axis`; those pushed out come in at the other end."""

    shift: Int64
    axis: Axis = 0
    native = True

    def infer(self, x: Spec) -> Spec:
        normalize_axis("roll", self.axis, len(x.shape))
        return x

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        x, y = ins[0].swapaxes(0, self.axis), outs[0].swapaxes(0, self.axis)
        cut = self.shift % max(1, len(x))
        copy(y[:cut], x[len(x) - cut :])
        copy(y[cut:], x[: len(x) - cut])

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        return roll(g, -self.shift, axis=self.axis)


class Concat(Op):
    """The inputs one after the other along `axis`; the other sizes are equal."""

    axis: Axis = 0
    native_bf16 = native = True

    def infer(self, first: Spec, *others: Spec) -> Spec:  # type: ignore[override]
        ins = (first, *others)
        axis = normalize_axis("concat", self.axis, len(first.shape))
        _check_alike("concat", ins, axis)
        return Spec((*first.shape[:axis], sum(x.shape[axis] for x in ins), *first.shape[axis + 1 :]), first.dtype)

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        y, start = np.moveaxis(outs[0], self.axis, 0), 0
        for x in ins:
            part = np.moveaxis(x, self.axis, 0)
            copy(y[start : start + len(part)], part)
            start += len(part)

    def vjp(self, g: Tensor, y: Tensor, *ins: Tensor) -> Any:
        axis, entries, start = self.axis % g.ndim, [], 0
        for x in ins:
            part = (slice(None),) * axis + (slice(start, start + x.shape[axis]),)
            entries.append(lambda part=part: g[part])
            start += x.shape[axis]
        return entries


class Stack(Op):
    """The inputs, all of one shape, along a new dimension `axis`."""

    axis: Axis = 0
    native_bf16 = native = True

    def infer(self, first: Spec, *others: Spec) -> Spec:  # type: ignore[override]
        ins = (first, *others)
        axis = normalize_axis("stack", self.axis, len(first.shape) + 1)
        _check_alike("stack", ins, None)
        return Spec((*first.shape[:axis], len(ins), *first.shape[axis:]), first.dtype)

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        rows = np.moveaxis(outs[0], self.axis, 0)
        for i, x in enumerate(ins):
            copy(rows[i, ...], x)  # a view even of a single element

    def vjp(self, g: Tensor, y: Tensor, *ins: Tensor) -> Any:
        part = (slice(None),) * (self.axis % g.ndim)
        return [lambda i=i: g[(*part, i)] for i in range(len(ins))]


def _check_alike(name: str, ins: Sequence[Spec], free_axis: int | None) -> None:
    first = ins[0]
    for number, x in enumerate(ins):
        sizes = len(x.shape) == len(first.shape)
        if not sizes or any(
            m != n for i, (m, n) in enumerate(zip(first.shape, x.shape, strict=True)) if i != free_axis
        ):
            but = "" if free_axis is None else f" (but for axis {free_axis})"
            raise ShapeError(f"{name}: input 0 is {first.shape}, input {number} is {x.shape}; sizes must be equal{but}")
        if x.dtype != first.dtype:
            raise DtypeError(f"{name}: input 0 is {first.dtype.name}, input {number} is {x.dtype.name}")


# -- the public functions ----------------------------------------------------------------------------------------------
def identity(x: TensorLike) -> Tensor:
    """A new tensor with the values of `x` (shared) and its gradient."""
    return cast(Tensor, apply(Identity(), as_tensor(x)))


def clone(x: TensorLike) -> Tensor:
    """A copy of `x`, with its gradient."""
    return cast(Tensor, apply(Clone(), as_tensor(x)))


def reshape(x: TensorLike, shape: int | Sequence[int], *, copy: bool | None = None) -> Tensor:
    """The elements of `x` in row-major order with another shape; one size may be -1. In memory of their own if `copy`;
    with False a ShapeError is raised where they cannot be left in place."""
    x = as_tensor(x)
    y = cast(Tensor, apply(Reshape(_sizes(shape)), x))
    if copy:
        return clone(y)
    if copy is False and not np.may_share_memory(x.data, y.data) and y.size:
        raise ShapeError(f"reshape: {y.shape} of x {x.shape}, which is not contiguous, takes a copy; copy is False")
    return y


def flatten(x: TensorLike, start: int = 0, end: int = -1) -> Tensor:
    """The dimensions from `start` to `end` (both included) joined to one."""
    x = as_tensor(x)
    first, last = (normalize_axis("flatten", a, max(1, x.ndim)) for a in (start, end))
    if first > last:
        raise ShapeError(f"flatten: start {start} lies behind end {end} of {x.ndim} dimensions")
    return reshape(x, (*x.shape[:first], math.prod(x.shape[first : last + 1]), *x.shape[last + 1 :]))


def permute_dims(x: TensorLike, axes: Sequence[int]) -> Tensor:
    """Dimensions in another order: the result's dimension i is x's dimension axes[i]."""
    return cast(Tensor, apply(PermuteDims(_sizes(axes)), as_tensor(x)))


def matrix_transpose(x: TensorLike) -> Tensor:
    """The last two dimensions exchanged."""
    x = as_tensor(x)
    if x.ndim < 2:
        raise ShapeError(f"matrix_transpose: {x.shape} has {x.ndim} dimensions, at least 2 are needed")
    return permute_dims(x, (*range(x.ndim - 2), x.ndim - 1, x.ndim - 2))


def swapaxes(x: TensorLike, axis1: int, axis2: int) -> Tensor:
    """Two dimensions exchanged."""
    x = as_tensor(x)
    axes = list(range(x.ndim))
    i, j = (normalize_axis("swapaxes", a, x.ndim) for a in (axis1, axis2))
    axes[i], axes[j] = j, i
    return permute_dims(x, axes)


def moveaxis(x: TensorLike, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """Dimensions `source` moved to the positions `destination`; the others keep their order."""
    x = as_tensor(x)
    pairs = [[normalize_axis("moveaxis", a, x.ndim) for a in _sizes(v)] for v in (source, destination)]
    if len(pairs[0]) != len(pairs[1]):
        raise ShapeError(f"moveaxis: {len(pairs[0])} sources for {len(pairs[1])} destinations")
    axes = [i for i in range(x.ndim) if i not in pairs[0]]
    for to, come in sorted(zip(pairs[1], pairs[0], strict=True)):
        axes.insert(to, come)
    return permute_dims(x, axes)


def expand_dims(x: TensorLike, axis: int | Sequence[int] = 0) -> Tensor:
    """A new dimension of size 1 at `axis` (or each of them) of the result."""
    x = as_tensor(x)
    if isinstance(axis, tuple | list):
        for each in normalize_axes("expand_dims", tuple(axis), x.ndim + len(axis)):
            x = cast(Tensor, apply(ExpandDims(each), x))
        return x
    return cast(Tensor, apply(ExpandDims(operator.index(cast(int, axis))), x))


def squeeze(x: TensorLike, axis: int | Sequence[int] | None = None) -> Tensor:
    """Without the dimensions `axis`, which must have size 1; None: without all that have."""
    x = as_tensor(x)
    axes = tuple(i for i, n in enumerate(x.shape) if n == 1) if axis is None else _sizes(axis)
    return cast(Tensor, apply(Squeeze(axes), x))


def concat(xs: Sequence[TensorLike], axis: int | None = 0) -> Tensor:
    """The inputs one after the other along `axis` (None: all flattened first), in their common dtype."""
    tensors = _several("concat", xs)
    if axis is None:
        tensors, axis = tuple(reshape(t, -1) for t in tensors), 0
    return cast(Tensor, apply(Concat(axis), *tensors))


def stack(xs: Sequence[TensorLike], axis: int = 0) -> Tensor:
    """The inputs, all of one shape, along a new dimension `axis`, in their common dtype."""
    return cast(Tensor, apply(Stack(axis), *_several("stack", xs)))


def _several(name: str, xs: Sequence[TensorLike]) -> tuple[Tensor, ...]:
    if not len(xs):
        raise ShapeError(f"{name}: needs at least one tensor, got none")
    return as_tensors(*xs)


def unstack(x: TensorLike, axis: int = 0) -> tuple[Tensor, ...]:
    """The slices of `x` along `axis`, which is dropped."""
    x = as_tensor(x)
    part = (slice(None),) * normalize_axis("unstack", axis, x.ndim)
    return tuple(x[(*part, i)] for i in range(x.shape[axis]))


def split(x: TensorLike, sections: int | Sequence[int], axis: int = 0) -> tuple[Tensor, ...]:
    """Pieces along `axis`: of the given sizes, or of the size `sections` each (the last may be smaller)."""
    x = as_tensor(x)
    axis = normalize_axis("split", axis, x.ndim)
    n = x.shape[axis]
    if isinstance(sections, int):
        if sections < 1:
            raise ShapeError(f"split: pieces of size {sections}; a size is at least 1")
        sections = [min(sections, n - start) for start in range(0, n, sections)]
    if sum(sections) != n:
        raise ShapeError(f"split: sizes {tuple(sections)} sum to {sum(sections)}, axis {axis} of {x.shape} has {n}")
    part, pieces, start = (slice(None),) * axis, [], 0
    for size in sections:
        pieces.append(x[(*part, slice(start, start + size))])
        start += size
    return tuple(pieces)


def chunk(x: TensorLike, chunks: int, axis: int = 0) -> tuple[Tensor, ...]:
    """At most `chunks` pieces of one size (the last may be smaller) along `axis`."""
    x = as_tensor(x)
    if chunks < 1:
        raise ShapeError(f"chunk: {chunks} chunks; ask for at least 1")
    return split(x, max(1, -(-x.shape[normalize_axis("chunk", axis, x.ndim)] // chunks)), axis=axis)


def flip(x: TensorLike, axis: int | Sequence[int] | None = None) -> Tensor:
    """The order of elements reversed along `axis` (None: along all)."""
    x = as_tensor(x)
    return cast(Tensor, apply(Flip(tuple(range(x.ndim)) if axis is None else _sizes(axis)), x))


def roll(x: TensorLike, shift: int | Sequence[int], axis: int | Sequence[int] | None = None) -> Tensor:
    """Elements moved `shift` places along `axis`, circularly (None: in the flattened order)."""
    x = as_tensor(x)
    if axis is None:
        return reshape(roll(reshape(x, -1), shift, axis=0), x.shape)
    shifts, axes = _sizes(shift), _sizes(axis)
    for by, along in zip(shifts * (len(axes) if len(shifts) == 1 else 1), axes, strict=True):
        x = cast(Tensor, apply(Roll(by, along), x))
    return x


def repeat(x: TensorLike, repeats: TensorLike, axis: int | None = None) -> Tensor:
    """Each element `repeats` times in a row along `axis` (None: of the flattened `x`): one number, or one for each of
    the elements along the axis, which are read at once."""
    x = as_tensor(x)
    if axis is None:
        x, axis = reshape(x, -1), 0
    axis = normalize_axis("repeat", axis, x.ndim)
    if not isinstance(repeats, int | np.integer | dims.Dim):
        return _repeat_each(x, as_tensor(repeats), axis)
    repeats = dims.index(repeats)
    wide = broadcast_to(expand_dims(x, axis=axis + 1), (*x.shape[: axis + 1], repeats, *x.shape[axis + 1 :]))
    return reshape(wide, (*x.shape[:axis], x.shape[axis] * repeats, *x.shape[axis + 1 :]))


def _repeat_each(x: Tensor, repeats: Tensor, axis: int) -> Tensor:
    times = repeats.numpy()
    if times.dtype.kind not in "iu" or times.ndim > 1 or (times < 0).any():
        raise ShapeError(
            f"repeat: repeats are {times.shape} {times.dtype.name}; expected a row of integers, none below 0"
        )
    n = x.shape[axis]
    if times.size not in (1, n):
        raise ShapeError(f"repeat: {times.size} repeats for the {n} elements of axis {axis} of {x.shape}")
    places = np.repeat(np.arange(n), np.broadcast_to(times.astype(np.int64), (n,)))
    return x[(*(slice(None),) * axis, Tensor(places))]


def tile(x: TensorLike, repetitions: int | Sequence[int]) -> Tensor:
    """The whole of `x` repeated ``repetitions[i]`` times along dimension i (counted from the last)."""
    x, times = as_tensor(x), _sizes(repetitions)
    ndim = max(x.ndim, len(times))
    times = (1,) * (ndim - len(times)) + times
    shape = (1,) * (ndim - x.ndim) + x.shape
    spread = reshape(x, tuple(n for size in shape for n in (1, size)))
    wide = broadcast_to(spread, tuple(n for pair in zip(times, shape, strict=True) for n in pair))
    return reshape(wide, tuple(t * n for t, n in zip(times, shape, strict=True)))


def _sizes(value: int | Sequence[int]) -> tuple[int, ...]:
    return tuple(map(dims.index, value)) if isinstance(value, tuple | list) else (dims.index(value),)  # type: ignore[arg-type]


__all__ = [
    "chunk", "clone", "concat", "expand_dims", "flatten", "flip", "identity",
    "matrix_transpose", "moveaxis", "permute_dims", "repeat", "reshape", "roll", "split", "squeeze", "stack",
    "swapaxes", "tile", "unstack",
]  # fmt: skip
