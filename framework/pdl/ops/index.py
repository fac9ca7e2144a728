"""Reading and writing at places: ``x[key]``, take, gather, scatter.

``x[key]`` is a view where the key holds ints, slices, None and ... only. Integer arrays and tensors follow NumPy's
rule: they are broadcast together, and their shape takes the place of the indexed dimensions if these are neighbours,
else comes first (a "..." for no dimension separates nothing). A bool array stands for the places where it is
True. Repeated places add up in the gradient.
"""

from __future__ import annotations

from typing import Any, TypeAlias, cast

import numpy as np

from pdl import dims
from pdl.dims import Dim
from pdl.dtype import Array, bool_
from pdl.errors import DtypeError, IndexRangeError, ShapeError
from pdl.kernels.copies import contiguous, copy
from pdl.kernels.rows import add as add_rows
from pdl.ops.attributes import Axis, Int64, Length
from pdl.ops.base import Arrays, Op, Spec, apply, not_differentiable
from pdl.ops.broadcast import broadcast_to, fill
from pdl.ops.cast import as_tensors
from pdl.ops.checks import broadcast_shapes, check_shapes, normalize_axis
from pdl.ops.shape import reshape
from pdl.tensor import Tensor, TensorLike, as_tensor

# one entry of a basic key, fit for JSON: an int, (start, stop, step), None for a new dimension
Entry: TypeAlias = "Int64 | tuple[Int64 | None, Int64 | None, Int64 | None] | None"
Key: TypeAlias = "tuple[Entry, ...]"
_ALL: Entry = (None, None, None)


def _numpy_key(key: Key) -> Any:
    """NumPy's form of a key; it ends in ... so that the answer is always a view, never a scalar."""
    return (*(slice(*k) if isinstance(k, tuple) else k for k in key), ...)


def _length(entry: tuple[int | None, int | None, int | None], n: int) -> int:
    """How many of `n` elements a slice takes: symbolic where n or an end is. An end inside n in the example is taken to
    be inside at every size, unless the slice runs backwards or is one of what two ends have in common, as x[-2:2]."""
    start, stop, step = slice(*entry).indices(n)
    if not dims.symbolic((n, *entry)):
        return len(range(start, stop, step))
    if entry[:2] == (None, None) and abs(step) == 1:
        return n
    low, high = (0, n) if step > 0 else (-1, n - 1)
    ends = [
        whole if end is None else n + end if end < 0 else end
        for end, whole in zip(entry[:2], (low, high) if step > 0 else (high, low), strict=True)
    ]
    left, right = entry[:2]
    exact = step < 0 or (left is not None and right is not None and left < 0 <= right)
    first, last = (
        end if int(end) == at and not exact else dims.minimum(dims.maximum(end, low), high)
        for end, at in zip(ends, (start, stop), strict=True)
    )
    return _between(first, last, step)


def _between(first: int, last: int, step: int) -> int:
    """The length of range(first, last, step)."""
    away, stride = (last - first, step) if step > 0 else (first - last, -step)
    return dims.maximum((away + stride - 1) // stride, 0)


def _check_steps(key: Key) -> None:
    if any(isinstance(entry, tuple) and entry[2] == 0 for entry in key):
        raise ShapeError(f"x[...]: the key {key} has a slice whose step is 0")


class GetItem(Op):
    """x[key] for a key of ints, slices and None (a view)."""

    key: Key

    def check(self) -> None:
        super().check()
        _check_steps(self.key)

    def infer(self, x: Spec) -> Spec:
        sizes: list[int] = []
        axis = 0
        for entry in self.key:
            if entry is None:
                sizes.append(1)
                continue
            if axis == len(x.shape):
                raise ShapeError(
                    f"x[...]: {sum(k is not None for k in self.key)} indices for {axis} dimensions of {x.shape}"
                )
            n = x.shape[axis]
            if isinstance(entry, tuple):
                sizes.append(_length(entry, n))
            elif not -n <= entry < n:
                raise IndexRangeError(
                    f"x[...]: index {entry} is outside axis {axis} of {x.shape}, which has {n} elements"
                )
            axis += 1
        return Spec((*sizes, *x.shape[axis:]), x.dtype)

    def view(self, x: Array) -> Array:
        return cast(Array, x[_numpy_key(self.key)])

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        return cast(Tensor, apply(PutItem(self.key, x.shape), g))


class PutItem(Op):
    """Zeros of `shape` with x at [key]: the adjoint of GetItem."""

    key: Key
    shape: tuple[Length, ...]
    native_bf16 = native = True

    def infer(self, x: Spec) -> Spec:
        whole = Spec(self.shape, x.dtype)
        check_shapes("x[...]", **{"what is put there": (x, GetItem(self.key).infer(whole).shape)})
        return whole

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        fill(outs[0], 0)
        copy(outs[0][_numpy_key(self.key)], ins[0])

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        return cast(Tensor, apply(GetItem(self.key), g))


class GetAt(Op):
    """x at the places that integer arrays (broadcast together) name along `axes`; the last inputs are these arrays."""

    axes: tuple[Axis, ...]
    native_bf16 = True

    def infer(self, x: Spec, *index: Spec) -> Spec:
        return Spec(at_shape(x.shape, self.axes, index), x.dtype)

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        x, *index = ins
        _check_range(x.shape, self.axes, index)
        if len(index) == 1:
            np.take(x, index[0], self.axes[0], outs[0], mode="wrap")
        else:
            outs[0][...] = x[_array_key(x.ndim, self.axes, index)]

    def vjp(self, g: Tensor, y: Tensor, x: Tensor, *index: Tensor) -> Any:
        return (lambda: apply(AddAt(self.axes, x.shape), g, *index), *[None] * len(index))


class AddAt(Op):
    """Zeros of `shape`, and x added at the places that integer arrays name along `axes`: the adjoint of GetAt."""

    axes: tuple[Axis, ...]
    shape: tuple[Length, ...]

    def infer(self, x: Spec, *index: Spec) -> Spec:
        if x.shape != at_shape(self.shape, self.axes, index):
            raise ShapeError(
                f"add_at: x is {x.shape}, the places in {self.shape} are {at_shape(self.shape, self.axes, index)}"
            )
        return Spec(self.shape, x.dtype)

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        (x, *index), y = ins, outs[0]
        _check_range(self.shape, self.axes, index)
        y.fill(0)
        if len(index) == 1:
            _add_rows(np.moveaxis(y, self.axes[0], 0), index[0], _rows_first(x, self.axes[0], index[0].ndim))
        else:
            np.add.at(y, _array_key(y.ndim, self.axes, index), x)

    def vjp(self, g: Tensor, y: Tensor, x: Tensor, *index: Tensor) -> Any:
        return (lambda: apply(GetAt(self.axes), g, *index), *[None] * len(index))


def _rows_first(x: Array, axis: int, index_ndim: int) -> Array:
    """x [*before, *index, *after] -> [*index, *before, *after]."""
    return np.moveaxis(x, range(axis, axis + index_ndim), range(index_ndim))


def _add_rows(y: Array, index: Array, x: Array) -> None:
    """y[index] = x over the first axis of the zeros y, repeated places summed in their order."""
    flat = index.reshape(-1).astype(np.int64, copy=False) % max(1, len(y))
    if not flat.size:
        return
    if y.dtype.kind == "f" and y.flags.c_contiguous and y.size:
        return add_rows(y.reshape(len(y), -1), flat, contiguous(x).reshape(flat.size, -1))
    members = x.reshape(flat.size, *y.shape[1:])
    order = np.argsort(flat, kind="stable")
    places = flat[order]
    starts = np.flatnonzero(np.concatenate(([True], places[1:] != places[:-1])))
    y[places[starts]] = np.add.reduceat(members[order], starts, axis=0)


def at_shape(shape: tuple[int, ...], axes: tuple[int, ...], index: tuple[Spec, ...]) -> tuple[int, ...]:
    """The shape of x[...] for a shape of x and integer arrays along `axes`."""
    for i in index:
        if i.dtype.kind not in "iu":
            raise DtypeError(f"x[...]: an index is {i.dtype.name}; integers, bools and slices index")
    if (
        len(set(axes)) != len(index)
        or len(axes) != len(index)
        or any(not 0 <= a < len(shape) for a in axes)
        or not axes
    ):
        raise ShapeError(
            f"x[...]: axes {axes} of {shape} for {len(index)} arrays of indices; expected one for each, from the front"
        )
    together = broadcast_shapes("x[...]", *[i.shape for i in index])
    rest = tuple(n for i, n in enumerate(shape) if i not in axes)
    at = axes[0] if axes == tuple(range(axes[0], axes[0] + len(axes))) else 0
    return (*rest[:at], *together, *rest[at:])


def _array_key(ndim: int, axes: tuple[int, ...], index: list[Array]) -> tuple[Any, ...]:
    arrays = dict(zip(axes, index, strict=True))
    return tuple(arrays.get(i, slice(None)) for i in range(ndim))


def _check_range(shape: tuple[int, ...], axes: tuple[int, ...], index: Any) -> None:
    for axis, i in zip(axes, index, strict=True):
        n = shape[axis]
        if i.size and (int(i.min()) < -n or int(i.max()) >= n):
            worst = int(i.min()) if int(i.min()) < -n else int(i.max())
            raise IndexRangeError(f"index {worst} is outside axis {axis} of {shape}, which has {n} elements")


class NonZero(Op):
    """Indices of the elements that are not 0, one row a dimension, in row-major order."""

    dynamic = True
    vjp = not_differentiable("indices are integers")

    def run(self, ins: tuple[Any, ...]) -> Arrays:
        return (np.array(np.nonzero(ins[0]), np.int64).reshape(ins[0].ndim, -1),)


# -- x[key] ------------------------------------------------------------------------------------------------------------
def getitem(x: Tensor, key: Any) -> Tensor:
    """``x[key]``: see the module."""
    keys = key if isinstance(key, tuple) else (key,)
    basic, arrays = _split_key(x, keys)
    if basic.count(_ALL) < len(basic):
        x = cast(Tensor, apply(GetItem(tuple(basic)), x))
    if not arrays:
        return x if basic.count(_ALL) < len(basic) else cast(Tensor, apply(GetItem(()), x))
    axes = tuple(axis for axis, _ in arrays)
    return cast(Tensor, apply(GetAt(axes), x, *[i for _, i in arrays]))


def _split_key(x: Tensor, keys: tuple[Any, ...]) -> tuple[list[Entry], list[tuple[int, Tensor]]]:
    """The key's basic part (arrays left as full slices), and the arrays with the axis of x[basic] that each indexes."""
    entries = [_as_entry(k) for k in keys]
    taken = sum(_width(e) for e in entries)
    if entries.count(...) > 1 or taken > x.ndim:
        raise IndexRangeError(
            f"x[...]: {taken} indices and {entries.count(...)} '...' for the {x.ndim} dimensions of {x.shape}"
        )
    if ... in entries:
        at = entries.index(...)
        entries[at : at + 1] = [_ALL] * (x.ndim - taken)
    advanced = any(isinstance(e, Tensor) for e in entries)
    basic: list[Entry] = []
    arrays: list[tuple[int, Tensor]] = []
    axis = 0
    for entry in entries:
        if isinstance(entry, Tensor):
            parts = _where_true(entry, x.shape[axis : axis + entry.ndim]) if entry.dtype == bool_ else [entry]
            arrays += [(len(basic) + i, part) for i, part in enumerate(parts)]
            basic += [_ALL] * len(parts) if entry.ndim or entry.dtype != bool_ else [None]  # x[True] is a new dimension
        elif advanced and isinstance(entry, int):
            arrays.append((len(basic), Tensor._wrap(np.array(entry, np.int64))))
            basic.append(_ALL)
        else:
            basic.append(entry)
        axis += _width(entry)
    return basic, arrays


def _as_entry(k: Any) -> Any:
    """An int, (start, stop, step), None, ... or a tensor of integers or bools."""
    if k is None or k is ...:
        return k
    if isinstance(k, slice):
        return tuple(None if v is None else dims.index(v) for v in (k.start, k.stop, k.step))
    if isinstance(k, int | np.integer) and not isinstance(k, bool):
        return k if type(k) is Dim else int(k)
    made = as_tensor(k)
    if made.dtype != bool_ and made.dtype.kind not in "iu" and made.size:
        raise DtypeError(f"x[...]: an index of dtype {made.dtype.name}; integers, bools and slices index")
    return made if made.size or made.dtype == bool_ else Tensor._wrap(made.data.astype(np.int64))


def _width(entry: Any) -> int:
    """How many dimensions of x an entry takes."""
    if entry is None or entry is ...:
        return 0
    return entry.ndim if isinstance(entry, Tensor) and entry.dtype == bool_ else 1


def _where_true(mask: Tensor, shape: tuple[int, ...]) -> tuple[Tensor, ...]:
    if mask.shape != shape and any(m not in (n, 0) for m, n in zip(mask.shape, shape, strict=True)):
        raise IndexRangeError(f"x[...]: a bool index of shape {mask.shape} for dimensions of sizes {shape}")
    return _nonzero(mask)


# -- functions ---------------------------------------------------------------------------------------------------------
def take(x: TensorLike, indices: TensorLike, axis: int | None = 0) -> Tensor:
    """Slices of `x` along `axis` (None: the only one of a 1-D `x`) at integer `indices`, whose shape takes the axis's
    place; -1 is the last."""
    x, index = as_tensor(x), as_tensor(indices)
    if axis is None:
        if x.ndim != 1:
            raise ShapeError(f"take: x {x.shape} has {x.ndim} dimensions; axis says along which")
        axis = 0
    return cast(Tensor, apply(GetAt((normalize_axis("take", axis, x.ndim),)), x, index))


class Gather(Op):
    """y[..., i, ...] = x[..., index[..., i, ...], ...] along `axis`; the other sizes are equal."""

    axis: Axis = -1
    native_bf16 = True

    def infer(self, x: Spec, index: Spec) -> Spec:
        _check_along("gather", self.axis, x, index)
        return Spec(index.shape, x.dtype)

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        x, index = ins
        axis = self.axis % x.ndim
        if axis == 1 and not any(index.strides[2:]) and index.size and index.shape[2:] == x.shape[2:]:
            rows = index.reshape(*index.shape[:2], -1)[..., 0]  # one number for a whole row of x
            _check_range(x.shape, (axis,), (rows,))
            outs[0][...] = x[np.arange(len(rows))[:, None], rows]
            return
        _check_range(x.shape, (axis,), (index,))
        outs[0][...] = np.take_along_axis(x, index, axis)

    def vjp(self, g: Tensor, y: Tensor, x: Tensor, index: Tensor) -> Any:
        return lambda: scatter_add(Tensor(np.zeros(x.shape, x.dtype)), index, g, axis=self.axis), None


class ScatterAdd(Op):
    """y = x, and updates added at y[..., index[..., i, ...], ...] along `axis`."""

    axis: Axis = -1

    def infer(self, x: Spec, index: Spec, updates: Spec) -> Spec:
        return _check_updates("scatter_add", self.axis, x, index, updates)

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        x, index, updates = ins
        _check_range(x.shape, (self.axis % x.ndim,), (index,))
        np.copyto(outs[0], x)
        np.add.at(outs[0], _along(index, self.axis), updates)

    def vjp(self, g: Tensor, y: Tensor, x: Tensor, index: Tensor, updates: Tensor) -> Any:
        return g, None, lambda: gather(g, index, axis=self.axis)


class Scatter(Op):
    """y = x, but updates at y[..., index[..., i, ...], ...] along `axis`."""

    axis: Axis = -1
    native_bf16 = True

    def infer(self, x: Spec, index: Spec, updates: Spec) -> Spec:
        return _check_updates("scatter", self.axis, x, index, updates)

    def cpu(self, outs: Arrays, ins: Arrays) -> None:
        x, index, updates = ins
        _check_range(x.shape, (self.axis % x.ndim,), (index,))
        np.copyto(outs[0], x)
        outs[0][_along(index, self.axis)] = updates

    def vjp(self, g: Tensor, y: Tensor, x: Tensor, index: Tensor, updates: Tensor) -> Any:
        nothing = Tensor(np.zeros(updates.shape, g.dtype))
        return lambda: scatter(g, index, nothing, axis=self.axis), None, lambda: gather(g, index, axis=self.axis)


def _check_along(name: str, axis: int, x: Spec, index: Spec) -> None:
    axis = normalize_axis(name, axis, len(x.shape))
    if index.dtype.kind not in "iu":
        raise DtypeError(f"{name}: indices are {index.dtype.name}, not integers")
    others = len(x.shape) == len(index.shape)
    if not others or any(m != n for i, (m, n) in enumerate(zip(x.shape, index.shape, strict=True)) if i != axis):
        raise ShapeError(f"{name}: x is {x.shape}, indices are {index.shape}; sizes must be equal but for axis {axis}")


def _check_updates(name: str, axis: int, x: Spec, index: Spec, updates: Spec) -> Spec:
    _check_along(name, axis, x, index)
    if updates.shape != index.shape or updates.dtype != x.dtype:
        raise ShapeError(
            f"{name}: updates are {updates.shape} {updates.dtype.name}; expected the indices' shape {index.shape} "
            f"and the dtype {x.dtype.name} of x"
        )
    return x


def _along(index: Array, axis: int) -> tuple[Array, ...]:
    """The key that addresses `index` along `axis` and each place itself along the others."""
    key = list(np.ogrid[tuple(slice(n) for n in index.shape)])
    key[axis] = index
    return tuple(key)


def nonzero(x: TensorLike) -> tuple[Tensor, ...]:
    """Indices (int64) of the elements that are not 0 (or True), one 1-D tensor a dimension, in row-major order."""
    x = as_tensor(x)
    if not x.ndim:
        raise ShapeError("nonzero: a tensor without dimensions has no indices; reshape it to (1,)")
    return _nonzero(x)


def _nonzero(x: Tensor) -> tuple[Tensor, ...]:
    rows = cast(Tensor, apply(NonZero(), x if x.ndim else reshape(x, 1)))
    return tuple(rows[i] for i in range(rows.shape[0]))


def gather(x: TensorLike, indices: TensorLike, *, axis: int = -1) -> Tensor:
    """``y[i, j] = x[i, indices[i, j]]`` along `axis` (here the last), for any rank; the other sizes are equal."""
    return cast(Tensor, apply(Gather(axis), as_tensor(x), as_tensor(indices)))


def take_along_axis(x: TensorLike, indices: TensorLike, axis: int = -1) -> Tensor:
    """`gather`, with sizes other than that of `axis` broadcast."""
    x, index = as_tensor(x), as_tensor(indices)
    along = normalize_axis("take_along_axis", axis, x.ndim)
    if index.ndim != x.ndim:
        raise ShapeError(f"take_along_axis: x has {x.ndim} dimensions, indices have {index.ndim}")
    m, n = (list(t.shape) for t in (x, index))
    m[along] = n[along] = 1
    shape = list(broadcast_shapes("take_along_axis", tuple(m), tuple(n)))
    shapes = [(*shape[:along], t.shape[along], *shape[along + 1 :]) for t in (x, index)]
    return gather(broadcast_to(x, shapes[0]), broadcast_to(index, shapes[1]), axis=along)


def scatter_add(x: TensorLike, indices: TensorLike, updates: TensorLike, *, axis: int = -1) -> Tensor:
    """`x` with ``updates[i, j]`` added at ``[i, indices[i, j]]`` along `axis` (here the last); repeated places add
    up."""
    x, updates = as_tensors(x, updates)
    return cast(Tensor, apply(ScatterAdd(axis), x, as_tensor(indices), updates))


def scatter(x: TensorLike, indices: TensorLike, updates: TensorLike, *, axis: int = -1) -> Tensor:
    """`x` with ``updates[i, j]`` stored at ``[i, indices[i, j]]`` along `axis` (here the last).

    Of repeated places the last one is kept; the gradient of `updates` is right only where no place repeats.
    """
    x, updates = as_tensors(x, updates)
    return cast(Tensor, apply(Scatter(axis), x, as_tensor(indices), updates))


__all__ = ["gather", "getitem", "nonzero", "scatter", "scatter_add", "take", "take_along_axis"]
