"""Reductions and running sums against NumPy."""

from __future__ import annotations

import numpy as np
from scipy import special

import pdl

from .case import Case, Draws, forward

draw = Draws(20)
f, distinct, c, i, b = draw.f, draw.distinct, draw.c, draw.i, draw.b
AXES = [{}, {"axis": 0}, {"axis": -1, "keepdims": True}, {"axis": (0, 2)}, {"axis": (1, 2), "keepdims": True}]
ONE_AXIS = [{}, {"axis": 0}, {"axis": -1, "keepdims": True}]
ties = np.array([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])


def norm(x, axis=None, ord=2, keepdims=False):
    if np.isinf(ord):
        return np.max(np.abs(x), axis=axis, keepdims=keepdims)
    return np.sum(np.abs(x) ** ord, axis=axis, keepdims=keepdims) ** (1 / ord)


def tied_max(x):
    return pdl.max(x, axis=1)


def recurrence(a, b, axis):
    a, b = np.moveaxis(a, axis, 0), np.moveaxis(b, axis, 0)
    y = np.zeros_like(b)
    for t in range(len(b)):
        y[t] = b[t] + (a[t] * y[t - 1] if t else 0)
    return np.moveaxis(y, 0, axis)


CASES = [
    *[Case(pdl.sum, [f(2, 3, 4)], np.sum, k) for k in AXES],
    *[Case(pdl.mean, [f(2, 3, 4)], np.mean, k) for k in AXES],
    *[Case(pdl.prod, [f(2, 3, 4)], np.prod, k) for k in AXES],
    *[Case(pdl.max, [distinct(2, 3, 4)], np.max, k) for k in AXES],
    *[Case(pdl.min, [distinct(2, 3, 4)], np.min, k) for k in AXES],
    *[Case(pdl.var, [f(2, 3, 4)], np.var, k, bf16=8e-2) for k in AXES],
    *[Case(pdl.std, [f(2, 3, 4)], np.std, k, bf16=8e-2) for k in AXES],
    *[Case(pdl.logsumexp, [f(2, 3, 4) * 3], special.logsumexp, k) for k in AXES],
    *[Case(pdl.norm, [f(2, 3, 4)], norm, k) for k in AXES],
    *[Case(pdl.all, [b(2, 3, 4)], np.all, k) for k in AXES],
    *[Case(pdl.any, [b(2, 3, 4)], np.any, k) for k in AXES],
    *[forward(pdl.argmax, [distinct(2, 3, 4)], np.argmax, k) for k in ONE_AXIS],
    *[forward(pdl.argmin, [distinct(2, 3, 4)], np.argmin, k) for k in ONE_AXIS],
    Case(pdl.sum, [i(2, 3)], np.sum, {"axis": 0}),
    Case(pdl.sum, [b(2, 3)], np.sum),
    Case(pdl.sum, [c(2, 3)], np.sum, {"axis": 0}),
    Case(pdl.sum, [f(0, 3)], np.sum, {"axis": 0}),
    Case(pdl.mean, [c(2, 3)], np.mean, {"axis": 0}),
    Case(pdl.var, [f(2, 3)], lambda x, correction: np.var(x, ddof=correction), {"correction": 1}),
    Case(pdl.prod, [np.array([[0.0, 2.0, 3.0], [0.0, 0.0, 1.5]])], np.prod, {"axis": 1}),
    Case(pdl.prod, [c(2, 3)], np.prod, {"axis": 1}),
    Case(pdl.norm, [f(2, 3)], norm, {"axis": 1, "ord": 1}),
    Case(pdl.norm, [f(2, 3)], norm, {"axis": 1, "ord": 3}),
    Case(pdl.norm, [distinct(2, 3)], norm, {"axis": 1, "ord": float("inf")}),
    Case(pdl.norm, [c(2, 3)], norm, {"axis": 1}),
    Case(pdl.count_nonzero, [i(3, 4, high=2)], np.count_nonzero, {"axis": 1}),
    Case(tied_max, [ties], lambda x: x.max(1), grad=[]),
    *[Case(pdl.cumsum, [f(2, 3, 4)], np.cumsum, {"axis": a}) for a in (0, -1)],
    *[Case(pdl.cumprod, [f(2, 3, 4)], np.cumprod, {"axis": a}) for a in (1, -1)],
    Case(pdl.cumprod, [np.array([1.0, 0.0, 2.0, 0.0, 3.0])], np.cumprod, {"axis": 0}),
    Case(pdl.cumsum, [i(3, 4)], np.cumsum, {"axis": 1}),
    *[Case(pdl.linear_scan, [f(2, 3, 4), f(2, 3, 4)], recurrence, {"axis": a}) for a in (0, 1)],
]
