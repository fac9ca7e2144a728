"""Attention against NumPy."""

from __future__ import annotations

import numpy as np
from scipy import special

import pdl

from .case import Case, Draws
from .cases_dropout import factors, first_seed

f = Draws(2).f


def apart(x, heads):
    return np.moveaxis(x.reshape(*x.shape[:-1], heads, x.shape[-1] // heads), -2, -3)


def attention(q, k=None, v=None, mask=None, is_causal=False, scale=None, heads=0, dropout_p=0.0, seed=0):
    if k is None:
        q, k, v = np.split(q, 3, axis=-1)
    if heads:
        q, k, v = apart(q, heads), apart(k, heads), apart(v, heads)
    scores = q @ k.swapaxes(-1, -2) * (1 / np.sqrt(q.shape[-1]) if scale is None else scale)
    if is_causal:
        scores = np.where(np.tri(q.shape[-2], k.shape[-2], dtype=bool), scores, -np.inf)
    if mask is not None:
        scores = np.where(mask, scores, -np.inf) if mask.dtype == bool else scores + mask
    p = special.softmax(scores, axis=-1)
    if dropout_p:
        p = p * factors(p.shape, dropout_p, seed)
    y = p @ v
    return np.moveaxis(y, -3, -2).reshape(*y.shape[:-3], y.shape[-2], -1) if heads else y


def masked(q, k, v, mask, is_causal=False, heads=0):
    return pdl.scaled_dot_product_attention(q, k, v, mask=mask, is_causal=is_causal, heads=heads)


def dropped(q, k=None, v=None, heads=0, is_causal=False):
    pdl.seed(5)
    return pdl.scaled_dot_product_attention(q, k, v, heads=heads, is_causal=is_causal, dropout_p=0.3)


def dropped_reference(q, k=None, v=None, heads=0, is_causal=False):
    seed = first_seed(5)
    return attention(q, k, v, heads=heads, is_causal=is_causal, dropout_p=0.3, seed=seed)


def turned(q, k, v):
    """Operands whose rows are not contiguous."""
    return pdl.scaled_dot_product_attention(pdl.swapaxes(q, -1, -2), pdl.flip(k, axis=-1), v)


def turned_reference(q, k, v):
    return attention(q.swapaxes(-1, -2), k[..., ::-1], v)


sdpa = pdl.scaled_dot_product_attention
MASK = np.array([[1, 0, 1, 1], [0, 1, 1, 0], [1, 1, 1, 1]], bool)
PADDING = np.array([[1, 1, 1, 0], [1, 1, 0, 0]], bool)[:, None, None]
CASES = [
    Case(sdpa, [f(3, 5), f(4, 5), f(4, 2)], attention),
    Case(sdpa, [f(2, 0, 5), f(2, 4, 5), f(2, 4, 2)], attention),
    Case(sdpa, [f(2, 2, 3, 5), f(2, 2, 3, 5), f(2, 2, 3, 5)], attention, {"is_causal": True}),
    Case(sdpa, [f(2, 3, 5), f(4, 5), f(4, 2)], attention, {"scale": 0.3}),
    Case(sdpa, [f(2, 1, 2, 3, 5), f(3, 1, 4, 5), f(3, 2, 4, 2)], attention),
    Case(sdpa, [f(2, 3, 6), f(2, 4, 6), f(2, 4, 4)], attention, {"heads": 2}),
    Case(sdpa, [f(3, 18)], attention, {"heads": 3}),
    Case(sdpa, [f(2, 5, 12)], attention, {"heads": 2, "is_causal": True}),
    Case(masked, [f(2, 3, 5), f(2, 4, 5), f(2, 4, 2), MASK], attention),
    Case(masked, [f(2, 3, 5), f(2, 4, 5), f(2, 4, 2), f(3, 4)], attention),
    Case(masked, [f(2, 3, 5), f(2, 4, 5), f(2, 4, 2), f(2, 3, 1)], attention, {"is_causal": True}),
    Case(masked, [f(2, 3, 4), f(2, 4, 4), f(2, 4, 4), PADDING], attention, {"heads": 2}),
    Case(masked, [f(2, 3, 4), f(2, 4, 4), f(2, 4, 4), MASK], attention, {"heads": 2, "is_causal": True}),
    Case(dropped, [f(2, 3, 5), f(2, 4, 5), f(2, 4, 3)], dropped_reference),
    Case(dropped, [f(2, 4, 12)], dropped_reference, {"heads": 2, "is_causal": True}),
    Case(turned, [f(5, 3), f(4, 5), f(4, 2)], turned_reference),
]
