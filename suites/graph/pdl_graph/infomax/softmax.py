"""Softmax regression on vectors that are not learned any more."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Array = np.ndarray
HISTORY, ROUNDS, SMALL = 10, 500, 1e-6


def fit(x: Array, y: Array, num_classes: int, *, penalty: float) -> tuple[Array, Array]:
    """(W [C, K], b [K]), float64, of the softmax regression with the least

        mean over rows of -log softmax(x W / r + b)[y]  +  penalty / 2 |W|^2,   r^2 the mean square of x

    for x [n, C] and classes y int [n]; W is returned divided by r, so that scores are x W + b.
    """
    x = np.asarray(x, np.float64)
    scale = max(float(np.sqrt(np.mean(x * x))), 1e-12)
    x = x / scale
    rows, (n, width) = np.arange(len(y)), x.shape

    def loss(point: Array) -> tuple[float, Array]:
        w, b = point[:-num_classes].reshape(width, num_classes), point[-num_classes:]
        scores = x @ w + b
        scores -= scores.max(1, keepdims=True)
        total = np.exp(scores)
        sums = total.sum(1, keepdims=True)
        value = float((np.log(sums[:, 0]) - scores[rows, y]).mean()) + penalty / 2 * float((w * w).sum())
        g = total / sums
        g[rows, y] -= 1
        g /= n
        return value, np.concatenate([(x.T @ g + penalty * w).ravel(), g.sum(0)])

    found = minimise(loss, np.zeros((width + 1) * num_classes))
    return found[:-num_classes].reshape(width, num_classes) / scale, found[-num_classes:]


def minimise(loss: Callable[[Array], tuple[float, Array]], point: Array) -> Array:
    """Where a convex function, given with its gradient, is least: L-BFGS (Liu & Nocedal, Mathematical Programming 45,
    1989) with steps halved until they lower it enough (Armijo). It ends where no part of the gradient is above 1e-6,
    or after 500 steps."""
    value, gradient = loss(point)
    pairs: list[tuple[Array, Array]] = []
    for _ in range(ROUNDS):
        if np.abs(gradient).max() <= SMALL:
            break
        direction = -_scaled(gradient, pairs)
        slope = float(direction @ gradient)
        step, lower = 1.0, False
        while not lower and step > 1e-10:
            after, slopes = loss(point + step * direction)
            lower = after <= value + 1e-4 * step * slope
            step = step if lower else step / 2
        if not lower:
            break
        moved, bent = step * direction, slopes - gradient
        if float(moved @ bent) > 1e-12:
            pairs = [*pairs, (moved, bent)][-HISTORY:]
        point, value, gradient = point + moved, after, slopes
    return point


def _scaled(gradient: Array, pairs: list[tuple[Array, Array]]) -> Array:
    """The gradient times an estimate of the inverse Hessian (the two loops of L-BFGS)."""
    q, shares = gradient.copy(), []
    for moved, bent in reversed(pairs):
        shares.append(float(moved @ q) / float(moved @ bent))
        q -= shares[-1] * bent
    if pairs:
        moved, bent = pairs[-1]
        q *= float(moved @ bent) / float(bent @ bent)
    for (moved, bent), share in zip(pairs, reversed(shares), strict=True):
        q += (share - float(bent @ q) / float(moved @ bent)) * moved
    return q
