"""Pooling over windows of [N, *spatial, C] tensors (one, two or three spatial dimensions), and gathers by the winners'
positions.

Strided and adaptive pooling share kernels: a window is a range of input cells per axis, given by tables (`Windows`).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, ClassVar, Literal, NamedTuple, overload

import numpy as np

from pdl.dims import Dim
from pdl.dtype import Array, int32
from pdl.errors import DtypeError, ShapeError
from pdl.kernels import pooling
from pdl.kernels.copies import contiguous
from pdl.ops.attributes import Cells, Length, Step, Width
from pdl.ops.base import Arrays, Op, Spec, apply
from pdl.ops.checks import check_floating, check_shapes
from pdl.ops.window import Pads, Sizes, each_axis, pad_pairs
from pdl.tensor import Tensor

#: cells of an axis, and windows along it
LONGEST = 2**24
_PER_AXIS = ("kernel", "stride", "padding", "dilation", "size", "cells")


class Windows(NamedTuple):
    """Tables of a pooling, the three axes after each other.

    Output cell o reads input cells lo[o], lo[o] + step, ... < hi[o]; input cell i is read by output cells first[i] <= o
    < last[i] only; scale[o] is the axis' share of 1 / (number of cells averaged).
    """

    lo: Array
    hi: Array
    first: Array
    last: Array
    scale: Array
    step: tuple[int, ...]
    size: tuple[int, ...]


class _Axis(NamedTuple):
    lo: Array
    hi: Array
    first: Array
    last: Array
    scale: Array


# -- geometry ----------------------------------------------------------------------------------------------------------
class _Pool(Op, abstract=True):
    """What every pooling shares: shapes, and the tables of its windows."""

    def axis(self, number: int, size: int) -> _Axis:
        """The windows along one spatial axis of `size` cells."""
        raise NotImplementedError

    def rank(self) -> int:
        """How many spatial dimensions the op has."""
        raise NotImplementedError

    def steps(self) -> tuple[int, ...]:
        """The distance between the cells of a window, per axis."""
        return (1,) * self.rank()

    def check(self) -> None:
        super().check()
        lengths = {name: len(getattr(self, name)) for name in self.fields if name in _PER_AXIS}
        if not 1 <= self.rank() <= 3 or any(n != self.rank() for n in lengths.values()):
            shown = ", ".join(f"{name} {n}" for name, n in lengths.items())
            raise ShapeError(f"{_name(self)}: attributes for 1 to 3 spatial axes alike, not {shown}")

    def spatial(self, x: Spec) -> tuple[int, ...]:
        """Spatial sizes of `x`; raises where its dimensions do not fit the op."""
        name, rank = _name(self), self.rank()
        check_floating(name, x=x)
        if len(x.shape) != rank + 2:
            raise ShapeError(
                f"{name}: x {x.shape} has {len(x.shape)} dimensions; {rank} spatial ones need [N, *spatial, C]"
            )
        if max(x.shape[1:-1]) > LONGEST or math.prod(map(int, x.shape[1:-1])) >= 2**31:
            raise ShapeError(f"{name}: x {x.shape} has axes over {LONGEST} or 2^31 cells; positions are int32")
        return x.shape[1:-1]

    def pooled(self, x: Spec) -> tuple[int, ...]:
        """The shape of the pooled `x`."""
        spatial = self.spatial(x)
        sizes = _windows(self, tuple(map(int, spatial))).size
        symbolic = [self.symbolic(i, n, out) for i, (n, out) in enumerate(zip(spatial, sizes, strict=True))]
        return (x.shape[0], *symbolic, x.shape[-1])

    def unpooled(self, g: Spec) -> Spec:
        """The input, of spatial sizes `cells`, that is pooled to `g`; raises where it is not."""
        cells: tuple[int, ...] = self.cells  # type: ignore[attr-defined]
        x = Spec((*g.shape[:1], *cells, *g.shape[1:][-1:]), g.dtype)
        check_shapes(f"gradient of {_name(self)}", g=(g, self.pooled(x)))
        return x

    def symbolic(self, number: int, size: int, out: int) -> int:
        """The number of windows along an axis, `out`, as an expression of its size where that is symbolic."""
        return out


class _Strided(_Pool, abstract=True):
    """Windows of fixed size at fixed distance; `padding` is (before, after) per axis."""

    kernel: tuple[Step, ...]
    stride: tuple[Step, ...]
    padding: tuple[tuple[Width, Width], ...]
    ceil_mode: bool = False

    def rank(self) -> int:
        return len(self.kernel)

    def symbolic(self, number: int, size: int, out: int) -> int:
        before, after = self.padding[number]
        reach, stride = (self.kernel[number] - 1) * self.steps()[number] + 1, self.stride[number]
        if not isinstance(size, Dim) or (self.ceil_mode and stride > reach - after):
            return out  # in the second case the last window may start behind the input, at some sizes
        free = size + before + after - reach
        return (-(-free // stride) if self.ceil_mode else free // stride) + 1

    def axis(self, number: int, size: int) -> _Axis:
        dilation, include = self.steps()[number], getattr(self, "count_include_pad", False)
        kernel, stride, (before, after) = self.kernel[number], self.stride[number], self.padding[number]
        reach = (kernel - 1) * dilation + 1
        free = size + before + after - reach
        out = (-(-free // stride) if self.ceil_mode else free // stride) + 1  # ceil_mode: the last may reach beyond
        if out < 1:
            raise ShapeError(
                f"{_name(self)}: a window of {reach} cells does not fit spatial axis {number} of {size} cells "
                f"with padding {before} + {after}"
            )
        if (out - 1) * stride >= size + before:
            out -= 1  # a window that would start in the padding after the input
        if out > LONGEST or max(before, reach) > 2**30:
            raise ShapeError(f"{_name(self)}: {out} windows of {reach} cells along spatial axis {number} are too many")
        start = np.arange(out) * stride - before
        lo = start + -(np.minimum(start, 0) // dilation) * dilation
        hi = np.minimum(start + reach, size)
        if (lo >= hi).any():
            o = int(np.argmax(lo >= hi))
            raise ShapeError(
                f"{_name(self)}: window {o} of spatial axis {number} (kernel {kernel}, padding {before} + {after}, "
                f"dilation {dilation}) lies wholly in the padding of {size} cells; "
                "padding must be smaller than the window"
            )
        count = np.minimum(start + kernel, size + after) - start if include else hi - lo
        return _axis(lo, hi, np.maximum(start, 0), size, 1.0 / count)


class _Adaptive(_Pool, abstract=True):
    """`size` windows per axis that share the input evenly: window o is [floor(o I / O), ceil((o + 1) I / O))."""

    size: tuple[Cells, ...]

    def rank(self) -> int:
        return len(self.size)

    def axis(self, number: int, size: int) -> _Axis:
        out = self.size[number]
        if size < 1 or out < 1:
            raise ShapeError(f"{_name(self)}: {size} cells of spatial axis {number} cannot be pooled to {out}")
        o = np.arange(out)
        lo, hi = o * size // out, -(-(o + 1) * size // out)
        return _axis(lo, hi, lo, size, 1.0 / (hi - lo))


def _axis(lo: Array, hi: Array, opens: Array, size: int, scale: Array) -> _Axis:
    """`opens`: a non-decreasing lower bound of lo, so that the windows over a cell are one range."""
    cells = np.arange(size)
    first, last = np.searchsorted(hi, cells, side="right"), np.searchsorted(opens, cells, side="right")
    tables = [a.astype(np.int32) for a in (lo, hi, first, last)]
    return _Axis(tables[0], tables[1], tables[2], tables[3], scale.astype(np.float64))


_WHOLE = _axis(np.zeros(1), np.ones(1), np.zeros(1), 1, np.ones(1))


@lru_cache(maxsize=1024)
def _windows(op: _Pool, spatial: tuple[int, ...]) -> Windows:
    axes = [op.axis(n, size) for n, size in enumerate(spatial)]
    missing = 3 - len(axes)
    lo, hi, first, last, scale = (np.concatenate(t) for t in zip(*([_WHOLE] * missing + axes), strict=True))
    size = tuple(len(a.lo) for a in axes)
    return Windows(lo, hi, first, last, scale, (1,) * missing + op.steps(), size)


def _five(x: Array) -> Array:
    """[N, *spatial, C] as contiguous [N, D, H, W, C]."""
    return contiguous(x).reshape(x.shape[0], *(1,) * (5 - x.ndim), *x.shape[1:])


# -- max ---------------------------------------------------------------------------------------------------------------
class _Max(_Pool, abstract=True):
    native_bf16 = native = True
    indexed: ClassVar[bool]  # whether there is a second output, which gradients need: a field of the ops below

    def infer(self, x: Spec) -> Any:
        shape = self.pooled(x)
        return (Spec(shape, x.dtype), Spec(shape, int32)) if self.indexed else Spec(shape, x.dtype)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        w, index = _windows(self, ins[0].shape[1:-1]), _five(outs[1]) if self.indexed else None
        pooling.max_pool(_five(outs[0]), index, _five(ins[0]), w.lo, w.hi, w.step)

    def vjp(self, g: Any, y: Any, x: Tensor) -> Any:
        values = {n: getattr(self, n) for n in self.fields if n != "indexed"}
        return None if g[0] is None else lambda: apply(_GRADS[type(self)](**values, cells=x.shape[1:-1]), g[0], y[1])


class _MaxGrad(_Pool, abstract=True):
    native_bf16 = native = True
    cells: ClassVar[tuple[int, ...]]  # spatial sizes of x: a field of the ops below

    def infer(self, g: Spec, index: Spec) -> Spec:
        made = self.unpooled(g)
        if index != Spec(g.shape, int32):
            raise ShapeError(f"{_name(self)}: index {index.shape} {index.dtype.name} must be int32 {g.shape}")
        return made

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        w = _windows(self, self.cells)
        pooling.max_pool_dx(_five(outs[0]), _five(ins[0]), _five(ins[1]), w.first, w.last, w.lo, w.hi, w.step)

    def vjp(self, g: Tensor, y: Tensor, _g: Tensor, index: Tensor) -> Any:
        return lambda: pick(g, index), None


class _Dilated(_Strided, abstract=True):
    dilation: tuple[Step, ...] = ()

    def steps(self) -> tuple[int, ...]:
        return self.dilation


class MaxPool(_Dilated, _Max):
    """Maximum of each window of x [N, *spatial, C], and its flat spatial position (int32) unless `indexed` is False."""

    indexed: bool = True  # type: ignore[misc]


class MaxPoolGrad(_Dilated, _MaxGrad):
    """dx [N, *cells, C] of `MaxPool`: each cell receives the g of the windows it won."""

    cells: tuple[Cells, ...] = ()  # type: ignore[misc]


class AdaptiveMaxPool(_Adaptive, _Max):
    """Maximum of each of `size` even windows of x [N, *spatial, C], and its flat spatial position (int32) unless
    `indexed` is False."""

    indexed: bool = True  # type: ignore[misc]


class AdaptiveMaxPoolGrad(_Adaptive, _MaxGrad):
    """dx [N, *cells, C] of `AdaptiveMaxPool`."""

    cells: tuple[Cells, ...] = ()  # type: ignore[misc]


# -- mean --------------------------------------------------------------------------------------------------------------
class _Avg(_Pool, abstract=True):
    native_bf16 = native = True

    def infer(self, x: Spec) -> Spec:
        return Spec(self.pooled(x), x.dtype)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        w = _windows(self, ins[0].shape[1:-1])
        pooling.avg_pool(_five(outs[0]), _five(ins[0]), w.lo, w.hi, w.scale)

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> Any:
        values = {n: getattr(self, n) for n in self.fields}
        return lambda: apply(_GRADS[type(self)](**values, cells=x.shape[1:-1]), g)


class _AvgGrad(_Pool, abstract=True):
    native_bf16 = native = True
    cells: ClassVar[tuple[int, ...]]

    def infer(self, g: Spec) -> Spec:
        return self.unpooled(g)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        w = _windows(self, self.cells)
        pooling.avg_pool_dx(_five(outs[0]), _five(ins[0]), w.first, w.last, w.lo, w.hi, w.scale)

    def vjp(self, g: Tensor, y: Tensor, _g: Tensor) -> Any:
        values = {n: getattr(self, n) for n in self.fields if n != "cells"}
        return lambda: apply(_FORWARD[type(self)](**values), g)


class _Counted(_Strided, abstract=True):
    count_include_pad: bool = True


class AvgPool(_Counted, _Avg):
    """Mean of each window of x [N, *spatial, C]."""


class AvgPoolGrad(_Counted, _AvgGrad):
    """dx [N, *cells, C] of `AvgPool`: each cell receives its share of the g of the windows over it."""

    cells: tuple[Cells, ...] = ()  # type: ignore[misc]


class AdaptiveAvgPool(_Adaptive, _Avg):
    """Mean of each of `size` even windows of x [N, *spatial, C]."""


class AdaptiveAvgPoolGrad(_Adaptive, _AvgGrad):
    """dx [N, *cells, C] of `AdaptiveAvgPool`."""

    cells: tuple[Cells, ...] = ()  # type: ignore[misc]


_GRADS: dict[type[Op], type[Op]] = {
    MaxPool: MaxPoolGrad,
    AdaptiveMaxPool: AdaptiveMaxPoolGrad,
    AvgPool: AvgPoolGrad,
    AdaptiveAvgPool: AdaptiveAvgPoolGrad,
}
_FORWARD = {grad: forward for forward, grad in _GRADS.items()}


# -- gathers by position -----------------------------------------------------------------------------------------------
class Pick(Op):
    """y[n, o, c] = x[n, index[n, o, c], c], 0 where index < 0; the axes between the first and the last are one flat
    axis."""

    native_bf16 = native = True

    def infer(self, x: Spec, index: Spec) -> Spec:
        _check_index("pick", x, index)
        return Spec(index.shape, x.dtype)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        pooling.pick(_flat(outs[0]), _flat(ins[0]), _flat(ins[1]))

    def vjp(self, g: Tensor, y: Tensor, x: Tensor, index: Tensor) -> Any:
        return lambda: apply(Place(x.shape[1:-1]), g, index), None


class Place(Op):
    """dx[n, index[n, o, c], c] += g[n, o, c] from zeros [N, *cells, C]; negative positions add nothing."""

    cells: tuple[Length, ...]
    native_bf16 = native = True

    def infer(self, g: Spec, index: Spec) -> Spec:
        _check_index("place", g, index)
        if g.shape != index.shape:
            raise ShapeError(f"place: x {g.shape} and index {index.shape} must have one shape")
        return Spec((g.shape[0], *self.cells, g.shape[-1]), g.dtype)

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        pooling.place(_flat(outs[0]), _flat(ins[0]), _flat(ins[1]))

    def vjp(self, g: Tensor, y: Tensor, _g: Tensor, index: Tensor) -> Any:
        return lambda: pick(g, index), None


def pick(x: Tensor, index: Tensor) -> Tensor:
    """y[n, o, c] = x[n, index[n, o, c], c] (0 where index < 0) for x [N, *spatial, C] and int32 flat spatial positions
    [N, *out, C]."""
    return apply(Pick(), x, index)


def _flat(x: Array) -> Array:
    """[N, ..., C] as contiguous [N, R, C]."""
    return contiguous(x).reshape(x.shape[0], math.prod(x.shape[1:-1]), x.shape[-1])


def _check_index(name: str, x: Spec, index: Spec) -> None:
    check_floating(name, x=x)
    if min(len(x.shape), len(index.shape)) < 2:
        raise ShapeError(f"{name}: x {x.shape} and index {index.shape} must be [N, *spatial, C]")
    if index.dtype != int32:
        raise DtypeError(f"{name}: index is {index.dtype.name}; expected int32, as max_pool returns it")
    if (x.shape[0], x.shape[-1]) != (index.shape[0], index.shape[-1]):
        raise ShapeError(
            f"{name}: x {x.shape} and index {index.shape} must agree in batch and channels (first and last axis)"
        )


# -- public functions --------------------------------------------------------------------------------------------------
@overload
def max_pool(
    x: Tensor,
    kernel: Sizes,
    *,
    stride: Sizes | None = None,
    padding: Pads = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_index: Literal[False] = False,
) -> Tensor: ...
@overload
def max_pool(
    x: Tensor,
    kernel: Sizes,
    *,
    stride: Sizes | None = None,
    padding: Pads = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_index: Literal[True],
) -> tuple[Tensor, Tensor]: ...
@overload
def max_pool(
    x: Tensor,
    kernel: Sizes,
    *,
    stride: Sizes | None = None,
    padding: Pads = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_index: bool,
) -> Any: ...
def max_pool(
    x: Tensor,
    kernel: Sizes,
    *,
    stride: Sizes | None = None,
    padding: Pads = 0,
    dilation: Sizes = 1,
    ceil_mode: bool = False,
    return_index: bool = False,
) -> Any:
    """Maximum over windows of x [N, *spatial, C], one to three spatial dimensions; float dtypes.

    `kernel`, `stride` (default: kernel), `dilation`: one number or one per axis. `padding`: one number, one per axis,
    or (before, after) per axis; padded cells never win. Output size floor((size + padding - dilation (kernel - 1) - 1)
    / stride) + 1 per axis; `ceil_mode` rounds up, but a window must start before the padding at the end. A NaN wins; of
    equal values the first. With `return_index` also the winners' flat spatial positions (int32), for `max_unpool`.
    Raises ShapeError where a window does not fit or lies wholly in the padding.
    """
    rank = x.ndim - 2
    sizes = _strided("max_pool", rank, kernel, stride, padding)
    y, index = apply(MaxPool(*sizes, ceil_mode, each_axis("max_pool", "dilation", dilation, rank)), x)
    return (y, index) if return_index else y


def avg_pool(
    x: Tensor,
    kernel: Sizes,
    *,
    stride: Sizes | None = None,
    padding: Pads = 0,
    ceil_mode: bool = False,
    count_include_pad: bool = True,
) -> Tensor:
    """Mean over windows of x [N, *spatial, C]; arguments as in `max_pool`. `count_include_pad`: padded cells count as
    zeros, else only the input's own cells are averaged."""
    sizes = _strided("avg_pool", x.ndim - 2, kernel, stride, padding)
    return apply(AvgPool(*sizes, ceil_mode, count_include_pad), x)


@overload
def adaptive_max_pool(x: Tensor, size: Sizes, *, return_index: Literal[False] = False) -> Tensor: ...
@overload
def adaptive_max_pool(x: Tensor, size: Sizes, *, return_index: Literal[True]) -> tuple[Tensor, Tensor]: ...
@overload
def adaptive_max_pool(x: Tensor, size: Sizes, *, return_index: bool) -> Any: ...
def adaptive_max_pool(x: Tensor, size: Sizes, *, return_index: bool = False) -> Any:
    """Maximum over `size` windows per axis (one number or one per axis): window o covers cells [floor(o I / O), ceil((o
    + 1) I / O))."""
    y, index = apply(AdaptiveMaxPool(each_axis("adaptive_max_pool", "size", size, x.ndim - 2)), x)
    return (y, index) if return_index else y


def adaptive_avg_pool(x: Tensor, size: Sizes) -> Tensor:
    """Mean over `size` windows per axis (one number or one per axis): window o covers cells [floor(o I / O), ceil((o +
    1) I / O))."""
    return apply(AdaptiveAvgPool(each_axis("adaptive_avg_pool", "size", size, x.ndim - 2)), x)


def global_avg_pool(x: Tensor, *, keepdims: bool = False) -> Tensor:
    """Mean over all spatial axes of x [N, *spatial, C] -> [N, C]."""
    from pdl.ops.reduce import mean

    return mean(x, axis=tuple(range(1, x.ndim - 1)), keepdims=keepdims)


def global_max_pool(x: Tensor, *, keepdims: bool = False) -> Tensor:
    """Maximum over all spatial axes of x [N, *spatial, C] -> [N, C]; the gradient goes to the first of equal values."""
    y = adaptive_max_pool(x, 1)
    return y if keepdims else y.reshape((x.shape[0], x.shape[-1]))


def lp_pool(
    x: Tensor, kernel: Sizes, *, p: float = 2.0, stride: Sizes | None = None, ceil_mode: bool = False
) -> Tensor:
    """(sum over the window of \\|x\\|^p)^(1/p), p >= 1."""
    from pdl.ops.elementwise import abs as absolute
    from pdl.ops.elementwise import pow as power

    cells = math.prod(each_axis("lp_pool", "kernel", kernel, x.ndim - 2))
    total = avg_pool(power(absolute(x), p), kernel, stride=stride, ceil_mode=ceil_mode) * cells
    return power(total, 1.0 / p)


def max_unpool(x: Tensor, index: Tensor, size: Sizes) -> Tensor:
    """Put x [N, *out, C] at the flat spatial positions `index` (from ``max_pool(..., return_index=True)``) of zeros [N,
    *size, C]; values that meet at one cell are added."""
    return apply(Place(each_axis("max_unpool", "size", size, x.ndim - 2)), x, index)


def _name(op: Op) -> str:
    """AdaptiveMaxPoolGrad -> adaptive_max_pool: the function the user called."""
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in type(op).__name__.removesuffix("Grad")).lstrip("_")


def _strided(
    name: str, rank: int, kernel: Sizes, stride: Sizes | None, padding: Pads
) -> tuple[tuple[int, ...], tuple[int, ...], tuple[tuple[int, int], ...]]:
    sizes = each_axis(name, "kernel", kernel, rank)
    strides = sizes if stride is None else each_axis(name, "stride", stride, rank)
    return sizes, strides, pad_pairs(name, padding, rank)


__all__ = [
    "adaptive_avg_pool", "adaptive_max_pool", "avg_pool", "global_avg_pool", "global_max_pool", "lp_pool", "max_pool",
    "max_unpool", "pick",
]  # fmt: skip
