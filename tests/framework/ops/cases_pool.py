"""Pooling."""

from __future__ import annotations

from itertools import product

import numpy as np

from pdl.ops.pool import (
    adaptive_avg_pool,
    adaptive_max_pool,
    avg_pool,
    global_avg_pool,
    global_max_pool,
    lp_pool,
    max_pool,
    max_unpool,
    pick,
)

from .case import Case, Draws

draw = Draws(19)
f, distinct = draw.f, draw.distinct


def _each(value, rank):
    return (value,) * rank if isinstance(value, int) else tuple(value)


def _windows(size, kernel, stride, before, after, dilation, ceil_mode):
    """Per window of one axis: its cells inside the input, and how many of its cells lie in input or padding."""
    free = size + before + after - (kernel - 1) * dilation - 1
    out = (int(np.ceil(free / stride)) if ceil_mode else free // stride) + 1
    if (out - 1) * stride >= size + before:
        out -= 1
    found = []
    for o in range(out):
        cells = [o * stride - before + k * dilation for k in range(kernel)]
        found.append(([i for i in cells if 0 <= i < size], sum(i < size + after for i in cells)))
    return found


def _pooled(x, windows, body):
    y = np.zeros((x.shape[0], *[len(w) for w in windows], x.shape[-1]))
    for at in product(*[range(len(w)) for w in windows]):
        parts = [w[o] for w, o in zip(windows, at, strict=True)]
        cells = x[np.ix_(range(x.shape[0]), *[p[0] for p in parts], range(x.shape[-1]))]
        y[(slice(None), *at)] = body(cells.reshape(x.shape[0], -1, x.shape[-1]), np.prod([p[1] for p in parts]))
    return y


def _strided(x, kernel, body, stride=None, padding=0, dilation=1, ceil_mode=False):
    rank = x.ndim - 2
    kernel = _each(kernel, rank)
    pads = [(p, p) if isinstance(p, int) else p for p in _each(padding, rank)]
    args = zip(x.shape[1:-1], kernel, _each(stride or kernel, rank), pads, _each(dilation, rank), strict=True)
    return _pooled(x, [_windows(n, k, s, *p, d, ceil_mode) for n, k, s, p, d in args], body)


def max_ref(x, kernel, **kwargs):
    return _strided(x, kernel, lambda cells, _: cells.max(1), **kwargs)


def avg_ref(x, kernel, count_include_pad=True, **kwargs):
    def body(cells, count):
        return cells.sum(1) / (count if count_include_pad else cells.shape[1])

    return _strided(x, kernel, body, **kwargs)


def _adaptive(x, size, body):
    windows = [
        [(range(o * n // k, -(-(o + 1) * n // k)), 0) for o in range(k)]
        for n, k in zip(x.shape[1:-1], _each(size, x.ndim - 2), strict=True)
    ]
    return _pooled(x, windows, lambda cells, _: body(cells))


def lp_ref(x, kernel, p, **kwargs):
    return _strided(x, kernel, lambda cells, _: (np.abs(cells) ** p).sum(1) ** (1 / p), **kwargs)


def max_pool_index(x):
    """Values and positions."""
    return max_pool(x, 2, return_index=True)


def max_pool_index_ref(x):
    n, h, w, c = x.shape
    y, index = np.zeros((n, h // 2, w // 2, c)), np.zeros((n, h // 2, w // 2, c), np.int32)
    for a, i, j, b in np.ndindex(y.shape):
        cells = [(2 * i + p) * w + 2 * j + q for p in range(2) for q in range(2)]
        index[a, i, j, b] = max(cells, key=lambda at: x[a].reshape(-1, c)[at, b])
        y[a, i, j, b] = x[a].reshape(-1, c)[index[a, i, j, b], b]
    return y, index


POSITIONS = np.array([[[0, 3], [5, -1], [3, 3]]], np.int32)  # [1, 3, 2]


def pick_ref(x, index):
    flat = x.reshape(1, -1, 2)
    return np.where(index < 0, 0, np.take_along_axis(flat, np.maximum(index, 0), 1))


def unpool_ref(x, index, size):
    y = np.zeros((1, int(np.prod(size)), 2))
    for o, c in np.ndindex(3, 2):
        if index[0, o, c] >= 0:
            y[0, index[0, o, c], c] += x[0, o, c]
    return y.reshape(1, *size, 2)


CASES = [
    *[Case(max_pool, [distinct(2, 4, 6, c, gap=0.01)], max_ref, {"kernel": 2}, second=c < 4) for c in (1, 3, 6, 17)],
    Case(max_pool, [distinct(2, 5, 6, 2)], max_ref, {"kernel": (3, 2), "stride": (2, 1), "padding": (1, 0)}),
    Case(max_pool, [distinct(1, 5, 6, 2)], max_ref, {"kernel": 3, "stride": 2, "padding": 1, "ceil_mode": True}),
    Case(max_pool, [distinct(1, 2, 5, 2)], max_ref, {"kernel": 3, "stride": 2, "ceil_mode": True}),
    Case(
        max_pool, [distinct(1, 8, 7, 2)], max_ref, {"kernel": 3, "stride": 2, "dilation": 2, "padding": 1}, second=False
    ),
    Case(max_pool, [distinct(2, 9, 3)], max_ref, {"kernel": 3, "stride": 1, "padding": ((0, 2),), "dilation": 2}),
    Case(max_pool, [distinct(1, 4, 3, 4, 2)], max_ref, {"kernel": 2, "stride": 1}, second=False),
    Case(max_pool_index, [distinct(2, 4, 4, 3)], max_pool_index_ref),
    *[Case(avg_pool, [f(2, 4, 6, c)], avg_ref, {"kernel": 2}, second=c < 4) for c in (1, 3, 6, 17)],
    Case(avg_pool, [f(2, 5, 6, 2)], avg_ref, {"kernel": (3, 2), "stride": (2, 1), "padding": (1, 1)}, second=False),
    Case(
        avg_pool,
        [f(1, 5, 6, 2)],
        avg_ref,
        {"kernel": 3, "stride": 2, "padding": 1, "ceil_mode": True, "count_include_pad": False},
    ),
    Case(avg_pool, [f(1, 6, 6, 2)], avg_ref, {"kernel": 3, "stride": 2, "padding": 1, "ceil_mode": True}),
    Case(avg_pool, [f(1, 2, 5, 2)], avg_ref, {"kernel": 3, "stride": 2, "ceil_mode": True}),
    Case(avg_pool, [f(2, 7, 3)], avg_ref, {"kernel": 3, "stride": 2, "padding": ((2, 0),)}),
    Case(avg_pool, [f(1, 4, 3, 4, 2)], avg_ref, {"kernel": (2, 3, 2), "stride": 1}, second=False),
    Case(adaptive_avg_pool, [f(2, 5, 7, 2)], lambda x, size: _adaptive(x, size, lambda c: c.mean(1)), {"size": (2, 3)}),
    Case(adaptive_avg_pool, [f(1, 3, 2, 2)], lambda x, size: _adaptive(x, size, lambda c: c.mean(1)), {"size": 4}),
    Case(adaptive_avg_pool, [f(2, 8, 3)], lambda x, size: _adaptive(x, size, lambda c: c.mean(1)), {"size": 3}),
    Case(
        adaptive_max_pool,
        [distinct(2, 5, 7, 2)],
        lambda x, size: _adaptive(x, size, lambda c: c.max(1)),
        {"size": (2, 3)},
    ),
    Case(
        adaptive_max_pool,
        [distinct(1, 3, 5, 4, 2)],
        lambda x, size: _adaptive(x, size, lambda c: c.max(1)),
        {"size": 2},
        second=False,
    ),
    Case(global_avg_pool, [f(2, 3, 4, 5)], lambda x: x.mean((1, 2))),
    Case(
        global_max_pool,
        [distinct(2, 3, 4, 5)],
        lambda x, keepdims: x.max((1, 2), keepdims=keepdims),
        {"keepdims": True},
    ),
    Case(global_max_pool, [distinct(2, 7, 3)], lambda x: x.max(1)),
    Case(lp_pool, [f(2, 4, 4, 2, low=0.2)], lp_ref, {"kernel": 2, "p": 3.0}),
    Case(lp_pool, [distinct(1, 5, 3)], lp_ref, {"kernel": 2, "stride": 1, "p": 2.0}),
    Case(max_unpool, [f(1, 3, 2), POSITIONS], unpool_ref, {"size": (6,)}),
    Case(pick, [f(1, 2, 3, 2), POSITIONS], pick_ref),
]
