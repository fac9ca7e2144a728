"""Attention to a cache, against a loop over rows, positions and heads."""

from __future__ import annotations

import numpy as np

import pdl

from .case import Case, draws

f, i = draws(seed=53)


def reference(q, k, v, keys, values, lengths, counts, heads, kv_heads=None, scale=None):
    kv_heads = kv_heads or heads
    rows, steps, _ = q.shape
    keys, values = keys.copy(), values.copy()
    of_keys, of_values = k.shape[2] // kv_heads, v.shape[2] // kv_heads
    q = q.reshape(rows, steps, heads, of_keys)
    y = np.zeros((rows, steps, heads, of_values), q.dtype)
    for r in range(rows):
        for t in range(counts[r]):
            keys[r, lengths[r] + t], values[r, lengths[r] + t] = k[r, t], v[r, t]
            n = lengths[r] + t + 1
            for h in range(heads):
                g = h // (heads // kv_heads)
                seen = keys[r, :n, g * of_keys : (g + 1) * of_keys]
                scores = seen @ q[r, t, h] * (scale or of_keys**-0.5)
                p = np.exp(scores - scores.max())
                y[r, t, h] = p / p.sum() @ values[r, :n, g * of_values : (g + 1) * of_values]
    return y.reshape(rows, steps, heads * of_values), keys, values


def case(rows, steps, room, lengths, counts, heads, kv_heads, e=3, d=3, **options):
    """Whatever lies behind what is kept is a number like others: it must not be read."""
    arrays = [f(rows, steps, heads * e), f(rows, steps, kv_heads * e), f(rows, steps, kv_heads * d)]
    kept = [f(rows, room, kv_heads * e), f(rows, room, kv_heads * d)]
    kept += [np.array(lengths, np.int64), np.array(counts, np.int64)]
    options = {"heads": heads, "kv_heads": kv_heads, **options}
    return Case(pdl.cached_attention, arrays + kept, reference, options)


CASES = [
    case(3, 1, 7, [0, 4, 6], [1, 1, 1], 2, 2),
    case(2, 4, 6, [0, 1], [4, 2], 4, 2, d=2),
    case(2, 3, 5, [2, 5], [3, 0], 6, 1, scale=0.4),
    case(1, 5, 5, [0], [5], 10, 1, e=5, d=18),
    case(0, 1, 4, [], [], 1, 1),
]
