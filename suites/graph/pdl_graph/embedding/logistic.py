"""Logistic regression on vectors: how good an embedding is, measured as its papers do."""

from __future__ import annotations

from typing import Any

import numpy as np

from pdl.errors import NumericalError, ShapeError

Array = np.ndarray[Any, Any]
STEPS, HALVINGS, SMALL = 100, 40, 1e-6
ROWS = 1 << 15  # looked at together


def fit(x: Array, y: Array, *, l2: float = 1.0) -> tuple[Array, Array]:
    """(weight [K, C], bias [K]), float64, of K regressions one by one (one against the rest):

        sum_i log(1 + exp(-s_i (w x_i + b))) + l2 / 2 (|w|^2 + b^2)    s_i is 1 where y_i and -1 elsewhere

    x  float [N, C];   y  bool [N, K];   l2  above 0: 1 / C of LIBLINEAR, which bounds b, too

    By Newton's method from 0, steps halved until the sum falls, until no part of the gradient exceeds 1e-6 of what
    it was at 0, or of 1. The sum is strictly convex: there is one answer, also for labels that all rows have, or none.
    """
    x, y = np.asarray(x), np.asarray(y, bool)
    if x.ndim != 2 or y.ndim != 2 or len(x) != len(y) or not l2 > 0:
        raise ShapeError(f"fit: rows {x.shape}, labels {y.shape} and l2={l2}; expected [N, C], [N, K] and l2 above 0")
    found = np.stack([_one(x, y[:, k], l2) for k in range(y.shape[1])])
    return found[:, :-1], found[:, -1]


def _one(x: Array, y: Array, l2: float) -> Array:
    at = np.zeros(x.shape[1] + 1)
    value, gradient, curve = _derivatives(x, y, at, l2)
    small = SMALL * max(1.0, float(np.abs(gradient).max()))
    for _ in range(STEPS):
        if np.abs(gradient).max() <= small:
            return at
        step = np.linalg.solve(curve, gradient)
        for halving in range(HALVINGS):
            new = at - step * 0.5**halving
            if _value(x, y, new, l2) <= value:
                break
        at = new
        value, gradient, curve = _derivatives(x, y, at, l2)
    advice = f"raise l2 ({l2:g}), or scale the vectors"
    raise NumericalError(f"logistic regression: no minimum after {STEPS} steps; {advice}")


def _value(x: Array, y: Array, at: Array, l2: float) -> float:
    z = x @ at[:-1] + at[-1]
    return float(np.logaddexp(0, np.where(y, -z, z)).sum() + 0.5 * l2 * at @ at)


def _derivatives(x: Array, y: Array, at: Array, l2: float) -> tuple[float, Array, Array]:
    """The sum, its gradient and its second derivatives, of which float32 suffices where rows are such."""
    gradient, curve = l2 * at, l2 * np.eye(len(at))
    for first in range(0, len(x), ROWS):
        rows = np.concatenate([x[first : first + ROWS], np.ones((len(x[first : first + ROWS]), 1), x.dtype)], axis=1)
        chance = 0.5 * (1 + np.tanh(0.5 * (rows @ at)))
        gradient = gradient + (chance - y[first : first + ROWS]) @ rows
        weighted = rows * (chance * (1 - chance)).astype(x.dtype)[:, None]
        curve = curve + weighted.T @ rows
    return _value(x, y, at, l2), gradient, curve
