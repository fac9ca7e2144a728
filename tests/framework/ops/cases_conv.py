"""Convolutions: windows, groups and the transposed form, against a direct sum."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

import pdl

from .case import Case, Draws

f = Draws(6).f


def each(value: Any, rank: int) -> tuple[int, ...]:
    return (value,) * rank if isinstance(value, int) else tuple(value)


def direct(
    x: np.ndarray,
    w: np.ndarray,
    b: np.ndarray | None = None,
    *,
    stride: Any = 1,
    padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> np.ndarray:
    """The definition, kernel position by kernel position."""
    rank = x.ndim - 2
    steps, spread = each(stride, rank), each(dilation, rank)
    if padding == "same":
        totals = [d * (k - 1) for d, k in zip(spread, w.shape, strict=False)]
        padding = [(t // 2, t - t // 2) for t in totals]
    pads = [(p, p) if isinstance(p, int) else p for p in ((padding,) * rank if isinstance(padding, int) else padding)]
    x = np.pad(x, [(0, 0), *pads, (0, 0)])
    out = [(n - d * (k - 1) - 1) // s + 1 for n, d, k, s in zip(x.shape[1:-1], spread, w.shape, steps, strict=False)]
    y = np.zeros((x.shape[0], *out, w.shape[-1]), x.dtype)
    c, o = w.shape[-2], w.shape[-1] // groups
    for at in itertools.product(*map(range, w.shape[:-2])):
        cells = tuple(
            slice(k * d, k * d + (n - 1) * s + 1, s) for k, d, n, s in zip(at, spread, out, steps, strict=True)
        )
        seen = x[(slice(None), *cells)]
        for g in range(groups):
            y[..., g * o : (g + 1) * o] += seen[..., g * c : (g + 1) * c] @ w[at][:, g * o : (g + 1) * o]
    return y if b is None else y + b


def transposed(
    x: np.ndarray,
    w: np.ndarray,
    b: np.ndarray | None = None,
    *,
    stride: Any = 1,
    padding: Any = 0,
    output_padding: Any = 0,
    dilation: Any = 1,
    groups: int = 1,
) -> np.ndarray:
    """Scatter every input value through the window."""
    rank = x.ndim - 2
    steps, spread, pads, more = (each(v, rank) for v in (stride, dilation, padding, output_padding))
    full = [
        (n - 1) * s + d * (k - 1) + 1 + m
        for n, s, d, k, m in zip(x.shape[1:-1], steps, spread, w.shape[:-2], more, strict=True)
    ]
    o, c = w.shape[-2], w.shape[-1] // groups
    y = np.zeros((x.shape[0], *full, o * groups), x.dtype)
    for at in itertools.product(*map(range, w.shape[:-2])):
        cells = tuple(
            slice(k * d, k * d + (n - 1) * s + 1, s)
            for k, d, n, s in zip(at, spread, x.shape[1:-1], steps, strict=True)
        )
        for g in range(groups):
            part = x[..., g * c : (g + 1) * c] @ w[at][:, g * c : (g + 1) * c].T
            y[(slice(None), *cells, slice(g * o, (g + 1) * o))] += part
    y = y[(slice(None), *(slice(p, n - p) for p, n in zip(pads, full, strict=True)))]
    return y if b is None else y + b


CASES = [
    Case(pdl.conv1d, [f(2, 7, 3), f(3, 3, 4), f(4)], direct, {"padding": 1}),
    Case(pdl.conv1d, [f(2, 9, 2), f(3, 2, 4)], direct, {"stride": 2, "dilation": 2, "padding": [(2, 1)]}),
    Case(pdl.conv2d, [f(2, 5, 5, 3), f(3, 3, 3, 4), f(4)], direct, {"padding": 1}),
    Case(pdl.conv2d, [f(1, 6, 5, 2), f(2, 3, 2, 3)], direct, {"padding": "same"}),
    Case(pdl.conv2d, [f(1, 6, 7, 2), f(3, 2, 2, 3)], direct, {"stride": (2, 3), "padding": (1, 0)}),
    Case(pdl.conv2d, [f(1, 7, 7, 2), f(3, 3, 2, 2)], direct, {"dilation": 2, "padding": "same"}),
    Case(pdl.conv2d, [f(2, 4, 4, 4), f(3, 3, 2, 6), f(6)], direct, {"groups": 2, "padding": 1}),
    Case(pdl.conv2d, [f(1, 5, 5, 4), f(3, 3, 1, 4)], direct, {"groups": 4, "padding": 1, "stride": 2}),
    Case(pdl.conv2d, [f(1, 4, 4, 3), f(3, 3, 1, 6)], direct, {"groups": 3}),
    Case(pdl.conv2d, [f(2, 3, 3, 4), f(1, 1, 4, 5), f(5)], direct),
    Case(pdl.conv2d, [f(1, 5, 5, 2), f(1, 1, 2, 3)], direct, {"stride": 2}),
    Case(pdl.conv3d, [f(1, 3, 4, 3, 2), f(2, 3, 2, 2, 2), f(2)], direct, {"padding": (0, 1, 1)}),
    Case(pdl.conv3d, [f(1, 4, 3, 3, 2), f(2, 2, 2, 1, 2)], direct, {"groups": 2, "stride": (2, 1, 1)}),
    Case(pdl.conv_transpose1d, [f(2, 4, 3), f(3, 2, 3), f(2)], transposed, {"stride": 2, "padding": 1}),
    Case(pdl.conv_transpose2d, [f(1, 3, 3, 2), f(3, 3, 3, 2), f(3)], transposed,
         {"stride": 2, "padding": 1, "output_padding": 1}),
    Case(pdl.conv_transpose2d, [f(1, 3, 2, 4), f(2, 3, 1, 4)], transposed, {"groups": 2, "dilation": 2}),
    Case(pdl.conv_transpose3d, [f(1, 2, 2, 2, 2), f(2, 2, 2, 2, 2)], transposed, {"stride": (1, 2, 2)}),
]  # fmt: skip
