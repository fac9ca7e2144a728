"""Attention against NumPy."""

from __future__ import annotations

import numpy as np
from scipy import special

import pdl

from .case import Case, f


def attention(q, k, v, mask=None, is_causal=False, scale=None):
    scores = q @ k.swapaxes(-1, -2) * (1 / np.sqrt(q.shape[-1]) if scale is None else scale)
    if is_causal:
        mask = np.tri(q.shape[-2], k.shape[-2], dtype=bool)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    return special.softmax(scores, axis=-1) @ v


def masked(q, k, v, mask):
    return pdl.scaled_dot_product_attention(q, k, v, mask=mask)


MASK = np.array([[1, 0, 1, 1], [0, 1, 1, 0], [1, 1, 1, 1]], bool)
CASES = [
    Case(pdl.scaled_dot_product_attention, [f(3, 5), f(4, 5), f(4, 2)], attention),
    Case(
        pdl.scaled_dot_product_attention, [f(2, 2, 3, 5), f(2, 2, 3, 5), f(2, 2, 3, 5)], attention, {"is_causal": True}
    ),
    Case(pdl.scaled_dot_product_attention, [f(2, 3, 5), f(4, 5), f(4, 2)], attention, {"scale": 0.3}),
    Case(masked, [f(2, 3, 5), f(2, 4, 5), f(2, 4, 2), MASK], attention),
    Case(masked, [f(2, 3, 5), f(2, 4, 5), f(2, 4, 2), f(3, 4)], attention),
]
