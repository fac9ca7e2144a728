"""Branches and loops: decided by values, so a trace follows them only where these are constants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from pdl import ops
from pdl.errors import UsageError
from pdl.onnx.registry import Context, onnx_op
from pdl.onnx.values import array, is_known, tensor


@onnx_op("If")
def _if(ctx: Context, condition: Any, *, then_branch: Any, else_branch: Any) -> Any:
    chosen = then_branch if _truth(ctx, condition) else else_branch
    return tuple(ctx.call(chosen, []))


@onnx_op("Loop")
def _loop(ctx: Context, most: Any, condition: Any, *state: Any, body: Any) -> Any:
    """The body takes (turn, condition, state...) and gives (condition, state..., rows...): the rows are stacked."""
    limit = None if most is None else int(ctx.value(most, "the number of turns").reshape(()))
    going = condition is None or _truth(ctx, condition)
    rows: list[list[Any]] = [[] for _ in range(len(body.outputs) - 1 - len(state))]
    turn = 0
    now = list(state)
    while going and (limit is None or turn < limit):
        made = ctx.call(body, [np.array(turn, np.int64), np.array(True), *now])
        going = _truth(ctx, made[0]) if body.outputs[0].name else True
        now = made[1 : 1 + len(state)]
        for row, value in zip(rows, made[1 + len(state) :], strict=True):
            row.append(value)
        turn += 1
    return (*now, *(stacked(row) for row in rows))


@onnx_op("Scan", since=9)
def _scan(
    ctx: Context, *inputs: Any, body: Any, num_scan_inputs: int, scan_input_axes: Any = None,
    scan_input_directions: Any = None, scan_output_axes: Any = None, scan_output_directions: Any = None,
) -> Any:  # fmt: skip
    """The body takes (state..., slices...) and gives (state..., rows...)."""
    count = len(inputs) - num_scan_inputs
    if not 0 < num_scan_inputs <= len(inputs):
        raise UsageError(f"num_scan_inputs={num_scan_inputs} of {len(inputs)} inputs")
    now, walked = list(inputs[:count]), inputs[count:]
    axes = scan_input_axes or [0] * num_scan_inputs
    back = scan_input_directions or [0] * num_scan_inputs
    lengths = {int(x.shape[axis]) for x, axis in zip(walked, axes, strict=True)}
    if len(lengths) != 1:
        raise UsageError(f"its scanned inputs have {sorted(lengths)} steps; expected one number")
    (steps,) = lengths
    rows: list[list[Any]] = [[] for _ in range(len(body.outputs) - count)]
    for t in range(steps):
        slices = [
            at(x, axis, steps - 1 - t if reverse else t) for x, axis, reverse in zip(walked, axes, back, strict=True)
        ]
        made = ctx.call(body, [*now, *slices])
        now = made[:count]
        for row, value in zip(rows, made[count:], strict=True):
            row.append(value)
    out_axes = scan_output_axes or [0] * len(rows)
    out_back = scan_output_directions or [0] * len(rows)
    stacks = [
        stacked(row[::-1] if reverse else row, axis)
        for row, axis, reverse in zip(rows, out_axes, out_back, strict=True)
    ]
    return (*now, *stacks)


def at(x: Any, axis: int, index: int) -> Any:
    """The slice of x at one place of an axis."""
    return x[(*(slice(None),) * (axis % len(x.shape)), index)]


def _truth(ctx: Context, x: Any) -> bool:
    return bool(ctx.value(x, "its condition").reshape(()))


def stacked(rows: list[Any], axis: int = 0) -> Any:
    """Values of equal shape along a new axis."""
    if not rows:
        return np.zeros((0,), np.float32)
    stack: Callable[..., Any] = ops.stack
    if is_known(*rows) and all(isinstance(v, np.ndarray) for v in rows):
        return np.stack([array(v) for v in rows], axis)
    return stack([tensor(v) for v in rows], axis=axis)
