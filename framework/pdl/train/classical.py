"""Classical classifiers that a model should beat: the prior, logistic regression and the nearest neighbour, in NumPy.

They look at no more than `ROWS` training samples (`spread`), so that they take seconds whatever the size of the
training.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from pdl.dtype import Array
from pdl.train.metrics import Metric

ROWS = 10_000
STEPS, HELD, HALVINGS, SMALL = 200, 10, 30, 1e-5  # of L-BFGS
AT_ONCE = 1 << 22  # distances


def spread(count: int, most: int = ROWS) -> Array:
    """At most so many of the numbers 0 to count - 1, evenly spread: int64, ascending."""
    few = min(count, most)
    return np.arange(few, dtype=np.int64) * count // max(few, 1)


def classifiers(x: Array, y: Array, x_test: Array, num_classes: int, *, seen: int) -> dict[str, Array]:
    """Scores float [M, K] of samples `x_test`, float [M, D], by each method, from samples x [N, D] with classes y [N],
    which are all or a part of the `seen` that training has."""
    few = f" ({len(x):,} samples)" if len(x) < seen else ""
    return {
        "majority": np.tile(log_prior(y, num_classes), (len(x_test), 1)),
        f"logistic regression{few}": logistic_regression(x, y, x_test, num_classes),
        f"nearest neighbour{few}": nearest_neighbour(x, y, x_test, num_classes),
    }


def scored(metrics: Mapping[str, Metric], scores: Array, targets: Array) -> dict[str, float]:
    """What those of the metrics come to that are one number, and for which scores need be no logits."""
    found = {}
    for name, metric in metrics.items():
        if metric.of_probabilities:
            continue
        metric.update(scores, targets)
        value = metric.compute()
        if isinstance(value, float):
            found[name] = value
    return found


def log_prior(y: Array, num_classes: int) -> Array:
    """The logarithm of each class's share, one sample more counted for every class: float64 [K]."""
    counts = np.bincount(y, minlength=num_classes) + 1.0
    shares: Array = np.log(counts / counts.sum())
    return shares


def standardised(x: Array, x_test: Array) -> tuple[Array, Array]:
    """Both with the means and deviations of x taken out, column by column; columns that do not vary are 0."""
    mean, std = x.mean(axis=0, dtype=np.float64), x.std(axis=0, dtype=np.float64)
    factor = np.divide(1.0, std, out=np.zeros_like(std), where=std > 1e-12)
    made = tuple(((each - mean) * factor).astype(np.float32) for each in (x, x_test))
    return made[0], made[1]


def logistic_regression(x: Array, y: Array, x_test: Array, num_classes: int, *, l2: float = 1.0) -> Array:
    """Scores float [M, K] of softmax regression on standardised columns, least sum of -log p + l2 / 2 |W|^2, found by
    L-BFGS (Liu & Nocedal, Mathematical Programming 45, 1989) from 0."""
    x, x_test = standardised(np.asarray(x), np.asarray(x_test))
    own = np.eye(num_classes, dtype=np.float32)[y]
    width = x.shape[1]

    def around(at: Array) -> tuple[float, Array]:
        weight = at.reshape(width + 1, num_classes)
        scores = x @ weight[:-1].astype(np.float32) + weight[-1].astype(np.float32)
        scores -= scores.max(axis=1, keepdims=True)
        chances = np.exp(scores)
        total = chances.sum(axis=1, keepdims=True)
        value = float((np.log(total[:, 0]) - (scores * own).sum(axis=1)).sum(dtype=np.float64))
        off = chances / total - own
        gradient = np.concatenate([x.T @ off, off.sum(axis=0, keepdims=True)]).astype(np.float64)
        gradient[:-1] += l2 * weight[:-1]
        return value + 0.5 * l2 * float((weight[:-1] ** 2).sum()), gradient.ravel()

    found = _descended(around, np.zeros((width + 1) * num_classes)).reshape(width + 1, num_classes)
    scores: Array = x_test @ found[:-1].astype(np.float32) + found[-1].astype(np.float32)
    return scores


class Sparse(NamedTuple):
    """A matrix of mostly zeros: values[i] at (rows[i], columns[i]), rows ascending, of this shape."""

    rows: Array
    columns: Array
    values: Array
    shape: tuple[int, int]

    def times(self, weight: Array) -> Array:
        """The product with a dense matrix [columns, K]: float [rows, K]."""
        made = [np.bincount(self.rows, self.values * one[self.columns], self.shape[0]) for one in weight.T]
        found: Array = np.stack(made, axis=1)
        return found

    def transposed_times(self, other: Array) -> Array:
        """The product of the transpose with a dense matrix [rows, K]: float [columns, K]."""
        made = [np.bincount(self.columns, self.values * one[self.rows], self.shape[1]) for one in other.T]
        found: Array = np.stack(made, axis=1)
        return found


def sparse_logistic_regression(
    x: Sparse, own: Array, x_test: Sparse, *, several: bool = False, l2: float = 1.0
) -> Array:
    """Scores float64 [M, K] of softmax regression, or with `several` of a logistic regression for each of K labels,
    from samples x with classes own [N, K] of 0 and 1: least sum of -log p + l2 / 2 |W|^2, found by L-BFGS from 0.
    Columns are taken as they are; there is a bias, which is not shrunk."""
    width, classes = x.shape[1], own.shape[1]

    def around(at: Array) -> tuple[float, Array]:
        weight = at.reshape(width + 1, classes)
        scores = x.times(weight[:-1]) + weight[-1]
        if several:
            value = float(np.logaddexp(0, np.where(own > 0, -scores, scores)).sum())
            off = 1 / (1 + np.exp(-scores)) - own
        else:
            scores -= scores.max(axis=1, keepdims=True)
            powers = np.exp(scores)
            total = powers.sum(axis=1, keepdims=True)
            value = float((np.log(total[:, 0]) - (scores * own).sum(axis=1)).sum())
            off = powers / total - own
        gradient = np.concatenate([x.transposed_times(off), off.sum(axis=0, keepdims=True)])
        gradient[:-1] += l2 * weight[:-1]
        return value + 0.5 * l2 * float((weight[:-1] ** 2).sum()), gradient.ravel()

    found = _descended(around, np.zeros((width + 1) * classes)).reshape(width + 1, classes)
    scores: Array = x_test.times(found[:-1]) + found[-1]
    return scores


def ridge_regression(x: Array, y: Array, x_test: Array, *, l2: float = 1.0) -> Array:
    """Numbers float64 [M] of linear regression on standardised columns, least sum of (x w + mean y - y)^2 + l2 |w|^2
    (Hoerl & Kennard, Technometrics 12, 1970)."""
    x, x_test = standardised(np.asarray(x), np.asarray(x_test))
    weight = np.linalg.solve(x.T @ x + l2 * np.eye(x.shape[1]), x.T @ (y - y.mean()))
    found: Array = x_test @ weight + y.mean()
    return found


def _descended(around, at: Array) -> Array:  # type: ignore[no-untyped-def]  # at -> (value, gradient)
    """Where a convex function is least, by L-BFGS with steps halved until it falls."""
    value, gradient = around(at)
    small, pairs = SMALL * max(1.0, float(np.abs(gradient).max())), list[tuple[Array, Array]]()
    for _ in range(STEPS):
        if np.abs(gradient).max() <= small:
            break
        step = -_curved(gradient, pairs)
        if not pairs:
            step /= max(float(np.abs(gradient).max()), 1.0)
        slope, length = float(step @ gradient), 1.0
        for _ in range(HALVINGS):
            new, (new_value, new_gradient) = at + length * step, around(at + length * step)
            if new_value <= value + 1e-4 * length * slope:
                break
            length /= 2
        else:
            break  # as near as float32 sums can tell
        moved, turned = new - at, new_gradient - gradient
        if moved @ turned > 1e-10:
            pairs = [*pairs[1 - HELD :], (moved, turned)]
        at, value, gradient = new, new_value, new_gradient
    return at


def _curved(gradient: Array, pairs: list[tuple[Array, Array]]) -> Array:
    """The inverse Hessian approximated from steps and changes of the gradient, times the gradient (two-loop
    recursion)."""
    held, kept = gradient.copy(), []
    for moved, turned in reversed(pairs):
        share = (moved @ held) / (moved @ turned)
        held -= share * turned
        kept.append(share)
    if pairs:
        moved, turned = pairs[-1]
        held *= (moved @ turned) / (turned @ turned)
    for (moved, turned), share in zip(pairs, reversed(kept), strict=True):
        held += moved * (share - (turned @ held) / (moved @ turned))
    return held


def nearest_neighbour(x: Array, y: Array, x_test: Array, num_classes: int) -> Array:
    """Scores float32 [M, K]: minus the squared distance of each class's nearest sample; -infinity for a class without
    one. The best is the class of the nearest neighbour of all (Cover & Hart, IEEE TIT 13, 1967)."""
    order = np.argsort(y, kind="stable")
    x, y = np.ascontiguousarray(x, np.float32)[order], y[order]
    there, first = np.unique(y, return_index=True)
    lengths = (x * x).sum(axis=1)
    scores = np.full((len(x_test), num_classes), -np.inf, np.float32)
    step = max(1, AT_ONCE // max(len(x), 1))
    for begin in range(0, len(x_test), step):
        part = np.ascontiguousarray(x_test[begin : begin + step], np.float32)
        far = lengths - 2 * (part @ x.T) + (part * part).sum(axis=1, keepdims=True)
        scores[begin : begin + step, there] = -np.minimum.reduceat(far, first, axis=1)
    return scores
