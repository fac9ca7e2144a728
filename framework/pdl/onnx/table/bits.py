"""Integers as rows of bits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pdl import ops
from pdl.errors import UsageError
from pdl.onnx.eager import computed
from pdl.onnx.registry import Context, onnx_op
from pdl.onnx.values import either


def _bitwise(name: str, in_ops: Callable[..., Any], in_array: Callable[..., Any], doc: str) -> None:
    function = either(name, in_ops, in_array)

    def op(ctx: Context, a: Any, b: Any) -> Any:
        return function(a, b)

    op.__doc__ = doc
    onnx_op(name, since=18)(op)


_bitwise("BitwiseAnd", ops.bitwise_and, np.bitwise_and, "The bits that a and b share.")
_bitwise("BitwiseOr", ops.bitwise_or, np.bitwise_or, "The bits of a or b.")
_bitwise("BitwiseXor", ops.bitwise_xor, np.bitwise_xor, "The bits of one of a and b.")
_invert = either("BitwiseNot", ops.bitwise_invert, np.invert)


@onnx_op("BitwiseNot", since=18)
def _not(ctx: Context, x: Any) -> Any:
    """Every bit inverted."""
    return _invert(x)


@onnx_op("BitShift", since=11)
@computed
def _shift(ctx: Context, x: Any, by: Any, *, direction: str) -> Any:
    """x moved by `by` bits; to the right the sign fills what becomes free. Moved out altogether: 0, or -1 by sign."""
    if direction not in ("LEFT", "RIGHT"):
        raise UsageError(f"{ctx.node.label()}: direction {direction!r} is neither LEFT nor RIGHT")
    width = x.dtype.itemsize * 8
    out = (by < 0) | (by >= width)
    steps = np.where(out, 0, by).astype(x.dtype)
    if direction == "LEFT":
        bits = x.view(f"u{x.dtype.itemsize}")
        moved = np.left_shift(bits, steps.view(bits.dtype)).view(x.dtype)
        return np.where(out, 0, moved).astype(x.dtype)
    return np.where(out, np.right_shift(x, width - 1) if x.dtype.kind == "i" else 0, np.right_shift(x, steps)).astype(
        x.dtype
    )
