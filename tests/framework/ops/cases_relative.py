"""Attention with relative positions against NumPy."""

from __future__ import annotations

import numpy as np

import pdl

from .case import Case, draws
from .cases_attention import apart, attention
from .cases_dropout import first_seed

f, _ = draws(seed=71)
PADDING = np.array([[1, 1, 1, 0], [1, 1, 0, 0]], bool)[:, None, None]


def relative_reference(q, moved, k, v, places, mask=None, heads=1, scale=None, dropout_p=0.0, seed=0):
    met = apart(moved, heads) @ apart(places, heads).swapaxes(-1, -2)
    queries, keys = met.shape[-2], k.shape[-2]
    scale = 1 / np.sqrt(q.shape[-1] // heads) if scale is None else scale
    far = queries - 1 - np.arange(queries)[:, None] + np.arange(keys)
    bias = np.take_along_axis(met, np.broadcast_to(far, (*met.shape[:-1], keys)), -1) * scale
    if mask is not None:
        bias = np.where(mask, bias, -np.inf) if mask.dtype == bool else bias + mask
    return attention(q, k, v, bias, scale=scale, heads=heads, dropout_p=dropout_p, seed=seed)


def relative(q, moved, k, v, places, mask=None, heads=1, scale=None, dropout_p=0.0):
    pdl.seed(5)
    return pdl.relative_attention(q, moved, k, v, places, mask=mask, heads=heads, scale=scale, dropout_p=dropout_p)


def relative_with_dropout(q, moved, k, v, places):
    return relative(q, moved, k, v, places, heads=2, dropout_p=0.3)


def relative_dropped(q, moved, k, v, places):
    return relative_reference(q, moved, k, v, places, heads=2, dropout_p=0.3, seed=first_seed(5))


CASES = [
    Case(relative, [f(3, 5), f(3, 5), f(4, 5), f(4, 2), f(6, 5)], relative_reference),
    Case(relative, [f(2, 4, 6), f(2, 4, 6), f(2, 4, 6), f(2, 4, 4), f(7, 6)], relative_reference, {"heads": 2}),
    Case(
        relative, [f(2, 3, 4), f(2, 3, 4), f(2, 4, 4), f(2, 4, 4), f(6, 4), PADDING], relative_reference,
        {"heads": 2, "scale": 0.3},
    ),
    Case(relative, [f(2, 4), f(2, 4), f(3, 4), f(3, 4), f(4, 4), f(1, 3)], relative_reference),
    Case(relative_with_dropout, [f(2, 3, 4), f(2, 3, 4), f(2, 3, 4), f(2, 3, 4), f(5, 4)], relative_dropped),
]  # fmt: skip
