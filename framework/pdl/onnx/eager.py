"""How a table function computes: on values in NumPy (`computed`), or with pdl's ops in float32 (`in_single`)."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from pdl.dtype import Array, DType, bfloat16, float32
from pdl.errors import UsageError
from pdl.onnx.registry import Context, NeedsValue
from pdl.onnx.values import float16, is_known, is_shape, is_tensor_dtype
from pdl.ops.cast import astype
from pdl.tensor import Tensor

Function = Callable[..., Any]
SHORT = (float16, bfloat16)


def known(ctx: Context, x: Any) -> Any:
    """The values of an input: an array, a list of them (a sequence), or None; `NeedsValue` where a trace has none."""
    if isinstance(x, list):
        return [known(ctx, v) for v in x]
    if x is None:
        return None
    x = ctx.value(x, "the values of its inputs")
    if is_shape(x):
        if not all(type(v) is int for v in x.flat):
            raise NeedsValue(f"{ctx.node.label()} needs sizes that are known")
        return x.astype(np.int64)
    return x


def computed(function: Function) -> Function:
    """The op is computed from the values of its inputs, in NumPy; a graph that traces it is interpreted instead."""

    @wraps(function)
    def run(ctx: Context, *inputs: Any, **attributes: Any) -> Any:
        return function(ctx, *[known(ctx, x) for x in inputs], **attributes)

    return run


def in_single(function: Function) -> Function:
    """Floats of 16 bits enter as float32; the floats that come out are rounded once, to the first float's dtype."""

    @wraps(function)
    def run(ctx: Context, *inputs: Any, **attributes: Any) -> Any:
        short = next((x.dtype for x in inputs if _is_float(x)), None)
        if short not in SHORT:
            return function(ctx, *inputs, **attributes)
        made = function(ctx, *[to_single(x) for x in inputs], **attributes)
        if isinstance(made, tuple):
            return tuple(rounded(y, short) for y in made)
        return rounded(made, short)

    return run


def _is_float(x: Any) -> bool:
    return hasattr(x, "dtype") and (x.dtype.kind == "f" or x.dtype == bfloat16)


def to_single(x: Any) -> Any:
    """x as float32 if it is a float of 16 bits."""
    if not hasattr(x, "dtype") or x.dtype not in SHORT:
        return x
    return astype(x, float32) if isinstance(x, Tensor) else x.astype(np.float32)


def rounded(x: Any, dtype: DType) -> Any:
    """A float32 result in its short dtype; others stay."""
    if not hasattr(x, "dtype") or x.dtype != float32:
        return x
    if is_tensor_dtype(dtype) or not is_known(x):
        return astype(x, dtype) if isinstance(x, Tensor) else x.astype(dtype)
    values: Array = x._data if isinstance(x, Tensor) else x
    return values.astype(dtype)


def scalar(x: Any, what: str) -> Any:
    """The one element of a known value, as a Python number."""
    if np.size(x) != 1:
        raise UsageError(f"{what} has shape {np.shape(x)}; expected a scalar")
    return np.asarray(x).reshape(()).item()
