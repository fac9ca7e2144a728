"""Conversions of dtype: every pair of ONNX's element types."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from pdl import ops
from pdl.dtype import Array, DType, bfloat16
from pdl.errors import DtypeError, ShapeError
from pdl.onnx.eager import computed
from pdl.onnx.registry import Context, NeedsValue, onnx_op
from pdl.onnx.sizes import cast as cast_sizes
from pdl.onnx.values import array, dtype_of, float16, is_known, is_shape, is_tensor_dtype, tensor, widened

FLOAT8: tuple[DType, ...] = tuple(
    np.dtype(t)
    for t in (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e4m3fnuz, ml_dtypes.float8_e5m2, ml_dtypes.float8_e5m2fnuz)
)
EXPONENT: DType = np.dtype(ml_dtypes.float8_e8m0fnu)
STRING: DType = np.dtype(object)


@onnx_op("Cast", since=6)
def _cast(ctx: Context, x: Any, *, to: int, saturate: int = 1, round_mode: str = "up") -> Any:
    """x in another element type."""
    return cast(ctx, x, dtype_of(to, ctx.node.label()), bool(saturate), round_mode)


@onnx_op("CastLike", since=15)
def _cast_like(ctx: Context, x: Any, target: Any, *, saturate: int = 1, round_mode: str = "up") -> Any:
    """x in the element type of `target`."""
    return cast(ctx, x, np.dtype(np.int64) if is_shape(target) else target.dtype, bool(saturate), round_mode)


@onnx_op("BitCast", since=26)
@computed
def _bit_cast(ctx: Context, x: Any, *, to: int) -> Any:
    """The bits of x read as another element type of the same width."""
    dtype = dtype_of(to, ctx.node.label())
    if STRING in (x.dtype, dtype) or dtype.itemsize != x.dtype.itemsize:
        raise DtypeError(f"{ctx.node.label()}: {x.dtype.name} and {dtype.name} differ in their width")
    return x.view(dtype)


def cast(ctx: Context, x: Any, dtype: DType, saturate: bool, round_mode: str) -> Any:
    """x, an array or a tensor, in another dtype."""
    if is_shape(x):
        sizes = cast_sizes(x, dtype)
        if sizes is not None:
            return sizes
        x = tensor(x)
    if not is_known(x):
        if dtype == float16:
            dtype = np.dtype(np.float32)  # a program computes in float32, and does not round values to float16
        if not is_tensor_dtype(dtype):
            raise NeedsValue(f"{ctx.node.label()}: {dtype.name} is no dtype of a traced graph")
        return ops.astype(x, dtype)
    values = array(x)
    return widened(cast_array(values, dtype, saturate, round_mode))


def cast_array(x: Array, dtype: DType, saturate: bool = True, round_mode: str = "up") -> Array:
    """x rounded to nearest, ties to even, towards zero for integers; `saturate`: 8-bit floats end at their largest."""
    if x.dtype == dtype:
        return x
    if STRING in (x.dtype, dtype):
        return _to_strings(x) if dtype == STRING else _from_strings(x, dtype)
    with np.errstate(all="ignore"):
        if dtype == EXPONENT:
            return _exponents(x.astype(np.float32), saturate, round_mode)
        if dtype in FLOAT8 and saturate:
            high = float(ml_dtypes.finfo(dtype).max)
            x = np.clip(x.astype(np.float64 if x.dtype.itemsize > 4 else np.float32), -high, high)
        if dtype.kind in "iu" and x.dtype.kind == "V":  # a short float to an integer
            x = x.astype(np.float32)
        return x.astype(dtype)


def _to_strings(x: Array) -> Array:
    """Numbers as text, the shortest that reads back as the same number."""
    wide = x.astype(np.float32) if x.dtype.kind == "V" else x
    made = np.empty(x.shape, object)
    made.reshape(-1)[:] = [_text(v) for v in wide.reshape(-1)]
    return made


def _text(value: Any) -> str:
    if isinstance(value, np.bool_):
        return "1" if value else "0"
    special = {"nan": "NaN", "inf": "INF", "-inf": "-INF"}
    return special.get(str(value), str(value))


def _from_strings(x: Array, dtype: DType) -> Array:
    """Text as numbers, in plain or scientific notation; NaN and infinities in any case."""
    flat = [float(v) if dtype.kind not in "iu" else _integer(v) for v in x.reshape(-1)]
    kind = object if dtype.kind in "iu" else np.float64
    return cast_array(np.array(flat, kind).astype(dtype) if dtype.kind in "iu" else np.array(flat), dtype).reshape(
        x.shape
    )


def _integer(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        return int(float(text))


def _exponents(x: Array, saturate: bool, round_mode: str) -> Array:
    """The power of two above, below or nearest to |x|, as its exponent + 127 (OCP microscaling, E8M0); NaN is 255."""
    if round_mode not in ("up", "down", "nearest"):
        raise ShapeError(f"round_mode {round_mode!r} is not known")
    bits = np.ascontiguousarray(x).view(np.uint32)
    exponent, fraction = ((bits >> 23) & 0xFF).astype(np.int64), bits & 0x7FFFFF
    half = 0x400000
    nearest = (fraction > half) | ((fraction == half) & (exponent > 0))
    above = {"up": fraction > 0, "down": np.zeros(x.shape, bool), "nearest": nearest}[round_mode]
    made = exponent + above
    made = np.where(exponent == 0xFF, 0xFF, np.minimum(made, 0xFE) if saturate else made)
    return made.astype(np.uint8).view(EXPONENT)


def is_short_integer(dtype: DType) -> bool:
    """Whether the dtype holds integers of 2 or 4 bits, which NumPy does not calculate with."""
    return dtype.kind == "V" and dtype not in (bfloat16, *FLOAT8, EXPONENT) and "int" in dtype.name
