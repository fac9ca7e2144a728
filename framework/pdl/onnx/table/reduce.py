"""Reductions along axes, and places of extremes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pdl import ops
from pdl.dims import least
from pdl.onnx.registry import Context, onnx_op
from pdl.onnx.sizes import along
from pdl.onnx.values import is_shape, shape_array, tensor
from pdl.ops.base import apply
from pdl.ops.reduce import Extreme, Max, Min

Reduction = Callable[..., Any]


def _sum_square(x: Any, **how: Any) -> Any:
    return ops.sum(x * x, **how)


def _l1(x: Any, **how: Any) -> Any:
    return ops.sum(ops.abs(x), **how)


def _l2(x: Any, **how: Any) -> Any:
    total = _sum_square(x, **how)
    return ops.sqrt(total) if x.dtype.kind not in "iu" else ops.sqrt(total.astype("float64"))


def _log_sum(x: Any, **how: Any) -> Any:
    return ops.log(ops.sum(x, **how))


def _extreme(op: type[Extreme]) -> Reduction:
    """max or min: bools as integers, nothing to reduce gives the neutral element."""

    def function(x: Any, *, axis: Any, keepdims: bool) -> Any:
        if x.dtype == bool:
            return function(x.astype("uint8"), axis=axis, keepdims=keepdims).astype(bool)
        axes = tuple(sorted({a % x.ndim for a in (range(x.ndim) if axis is None else axis)}))
        return apply(op(axes, keepdims, neutral=any((least(x.shape[a]) or 0) <= 0 for a in axes)), x)

    return function


def _log_sum_exp(x: Any, **how: Any) -> Any:
    nothing = _of_nothing(x, -np.inf, **how)
    return ops.logsumexp(x, **how) if nothing is None else nothing


def _of_nothing(x: Any, value: float, *, axis: Any, keepdims: bool) -> Any:
    """`value` in the result's shape where an axis that is reduced has no elements; else None."""
    along = {a % x.ndim for a in (range(x.ndim) if axis is None else axis)}
    if all(x.shape[a] != 0 for a in along):
        return None
    shape = tuple(1 if i in along else n for i, n in enumerate(x.shape) if keepdims or i not in along)
    return ops.broadcast_to(tensor(np.array(value, x.dtype)), shape)


#: name -> (function, the opset from which axes are an input)
REDUCTIONS: dict[str, tuple[Reduction, int]] = {
    "ReduceSum": (ops.sum, 13),
    "ReduceMean": (ops.mean, 18),
    "ReduceMax": (_extreme(Max), 18),
    "ReduceMin": (_extreme(Min), 18),
    "ReduceProd": (ops.prod, 18),
    "ReduceSumSquare": (_sum_square, 18),
    "ReduceL1": (_l1, 18),
    "ReduceL2": (_l2, 18),
    "ReduceLogSum": (_log_sum, 18),
    "ReduceLogSumExp": (_log_sum_exp, 18),
}


def _reduction(name: str, since: int) -> None:
    @onnx_op(name)
    def _with_attribute(ctx: Context, x: Any, *, axes: Any = None, keepdims: int = 1) -> Any:
        return _reduced(name, x, tuple(axes) if axes else None, keepdims)

    @onnx_op(name, since=since)
    def _with_input(ctx: Context, x: Any, axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0) -> Any:
        along = () if axes is None else ctx.ints(axes, "axes")
        if not along and noop_with_empty_axes:
            return _reduced(name, x, (), keepdims)
        return _reduced(name, x, along or None, keepdims)


def _reduced(name: str, x: Any, axes: tuple[int, ...] | None, keepdims: int) -> Any:
    sizes = along(name, x, axes, bool(keepdims)) if is_shape(x) else None
    if sizes is not None:
        return sizes
    x = tensor(x)
    y = REDUCTIONS[name][0](x, axis=axes, keepdims=bool(keepdims))
    return y if y.dtype == x.dtype or x.dtype.kind == "b" else y.astype(x.dtype)


for _name, (_, _since) in REDUCTIONS.items():
    _reduction(_name, _since)


def _arg(name: str, function: Callable[..., Any]) -> None:
    @onnx_op(name)
    def _place(ctx: Context, x: Any, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Any:
        x = tensor(x)
        if not select_last_index:
            return function(x, axis=axis, keepdims=bool(keepdims))
        found = function(ops.flip(x, axis=axis), axis=axis, keepdims=bool(keepdims))
        return tensor(shape_array([x.shape[axis] - 1])).reshape(()) - found


_arg("ArgMax", ops.argmax)
_arg("ArgMin", ops.argmin)


@onnx_op("CumSum", since=11)
def _cumsum(ctx: Context, x: Any, axis: Any, *, exclusive: int = 0, reverse: int = 0) -> Any:
    along = int(ctx.value(axis, "the axis").reshape(()))
    x = tensor(x)
    y = ops.flip(x, axis=along) if reverse else x
    if exclusive:  # what is not finite counts from the next place on
        places = tuple(slice(None, -1) if i == along % x.ndim else slice(None) for i in range(x.ndim))
        y = ops.pad(y, [(1, 0) if i == along % x.ndim else (0, 0) for i in range(x.ndim)])[places]
    total = ops.cumsum(y, axis=along).astype(x.dtype)
    return ops.flip(total, axis=along) if reverse else total
