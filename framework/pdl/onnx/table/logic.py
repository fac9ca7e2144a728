"""Comparisons, truth values, choice."""

from __future__ import annotations

from typing import Any

import numpy as np

from pdl import ops
from pdl.onnx.registry import Context, onnx_op
from pdl.onnx.values import array, either, is_known, of_sizes, settled, tensor


def _comparison(name: str, in_ops: Any, in_array: Any) -> None:
    function = either(name, in_ops, in_array)

    @onnx_op(name, since=9 if name.endswith("OrEqual") else 7)
    def _two(ctx: Context, a: Any, b: Any) -> Any:
        y = function(a, b)
        return y if y.dtype in (bool, object) else y.astype(bool)


_comparison("Equal", ops.equal, np.equal)
_comparison("Greater", ops.greater, np.greater)
_comparison("GreaterOrEqual", ops.greater_equal, np.greater_equal)
_comparison("Less", ops.less, np.less)
_comparison("LessOrEqual", ops.less_equal, np.less_equal)
_comparison("And", ops.logical_and, np.logical_and)
_comparison("Or", ops.logical_or, np.logical_or)
_comparison("Xor", ops.logical_xor, np.logical_xor)


@onnx_op("Not")
def _not(ctx: Context, x: Any) -> Any:
    return _opposite(x)


_opposite = either("Not", ops.logical_not, np.logical_not)


@onnx_op("Where")
def _where(ctx: Context, condition: Any, a: Any, b: Any) -> Any:
    sizes = of_sizes("Where", condition, a, b)
    if sizes is not None:
        return sizes
    if is_known(condition, a, b) and array(a).dtype.kind not in "fcV":
        return settled(np.where(array(condition), array(a), array(b)))
    return ops.where(tensor(condition), tensor(a), tensor(b))


@onnx_op("IsNaN")
def _is_nan(ctx: Context, x: Any) -> Any:
    return ops.isnan(tensor(x))


@onnx_op("IsInf")
def _is_inf(ctx: Context, x: Any, *, detect_negative: int = 1, detect_positive: int = 1) -> Any:
    x = tensor(x)
    found = ops.isinf(x)
    if not detect_negative:
        found = ops.logical_and(found, ops.greater(x, 0))
    return found if detect_positive else ops.logical_and(found, ops.less(x, 0))
