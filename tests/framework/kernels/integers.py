"""Quantised arithmetic in NumPy, as a reference: sums in int64, then float32 in the order that the kernels promise."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

F = np.float32


def finish(
    total: Any,
    multiplier: Any,
    *,
    zero: int | None,
    low: float,
    high: float,
    residual: Any = None,
    residual_scale: float = 0,
    residual_zero: int = 0,
    after: float | None = None,
) -> Any:
    """uint8 of int64 sums [..., O], or float32 where `zero` is None."""
    v = total.astype(np.int32).astype(F) * multiplier
    if residual is not None:
        v = v + (residual.astype(F) - F(residual_zero)) * F(residual_scale)
    if after is not None:
        v = v * np.clip(v * F(1 / 6) + F(0.5), F(0), F(1)) * F(after)
    v = np.clip(v, F(low), F(high))
    return v if zero is None else (np.rint(v).astype(np.int64) + zero).astype(np.uint8)


def correlation(x: Any, w: Any, stride: Any, pads: Any, dilation: Any, groups: int, x_zero: int) -> Any:
    """Sums of (x - x_zero) w: x uint8 [N, D, H, W, C], w int8 [KD, KH, KW, C/groups, O] -> int64 [N, D', H', W', O]."""
    centred = np.pad(x.astype(np.int64) - x_zero, [(0, 0), *pads, (0, 0)])
    sizes = [(centred.shape[1 + d] - dilation[d] * (w.shape[d] - 1) - 1) // stride[d] + 1 for d in range(3)]
    c, o = w.shape[3], w.shape[4] // groups
    y = np.zeros((x.shape[0], *sizes, w.shape[4]), np.int64)
    for taps in itertools.product(*map(range, w.shape[:3])):
        window = tuple(
            slice(t * e, t * e + (n - 1) * s + 1, s) for t, e, n, s in zip(taps, dilation, sizes, stride, strict=True)
        )
        part = centred[(slice(None), *window)]
        for g in range(groups):
            columns = slice(g * o, (g + 1) * o)
            y[..., columns] += part[..., g * c : (g + 1) * c] @ w[taps][:, columns].astype(np.int64)
    return y
