"""What is measured of drawn pictures: how far they are from real ones, and whether they are of the class asked for."""

from __future__ import annotations

import numpy as np

from pdl.dtype import Array
from pdl.train import Metric
from pdl_cv.steps.pictures import grid

EACH, ALL = 10, 100  # pictures of a class in a grid, and of all where there are none


def frechet_distance(ours: Array, theirs: Array) -> float:
    """|m - n|^2 + tr(S + T - 2 (S T)^(1/2)): the square of the distance of the normal distributions with the means and
    covariances of features [N, D] and [M, D] (Heusel et al., NIPS 2017, arXiv 1706.08500); NaN of fewer than two.

    The trace of the root is the sum of the roots of the eigenvalues of S^(1/2) T S^(1/2), which is symmetric.
    """
    if len(ours) < 2 or len(theirs) < 2:
        return float("nan")
    (m, s), (n, t) = ((x.mean(axis=0), np.atleast_2d(np.cov(x, rowvar=False))) for x in map(np.float64, (ours, theirs)))
    values, vectors = np.linalg.eigh(s)
    root = (vectors * np.sqrt(np.maximum(values, 0))) @ vectors.T
    both = np.sqrt(np.maximum(np.linalg.eigvalsh(root @ t @ root), 0)).sum()
    return float(np.square(m - n).sum() + np.trace(s) + np.trace(t) - 2 * both)


class Frechet(Metric):
    """The Frechet distance between features of real pictures, `update`'s first, and of drawn ones, its second."""

    def __init__(self) -> None:
        self.real: list[Array] = []
        self.drawn: list[Array] = []

    def update(self, real: Array, drawn: Array, *others: Array) -> None:
        self.real.append(real)
        self.drawn.append(drawn)

    def compute(self) -> float:
        return frechet_distance(np.concatenate(self.real), np.concatenate(self.drawn)) if self.real else float("nan")


class Called(Metric):
    """The share of drawn pictures that the judge calls what was asked for."""

    def __init__(self) -> None:
        self.right = self.total = 0

    def update(self, real: Array, drawn: Array, asked: Array, called: Array, *others: Array) -> None:
        self.right += int((asked == called).sum())
        self.total += len(asked)

    def compute(self) -> float:
        return self.right / self.total if self.total else float("nan")


class Pictures(Metric):
    """The first drawn pictures of each class, as a grid with a row for each: uint8 [H, W, C]."""

    def __init__(self, classes: int) -> None:
        self.kept: list[list[Array]] = [[] for _ in range(max(1, classes))]
        self.most = EACH if classes else ALL

    def update(self, real: Array, drawn: Array, asked: Array, called: Array, pictures: Array) -> None:
        for label, picture in zip(asked.tolist(), pictures, strict=True):
            row = self.kept[label if len(self.kept) > 1 else 0]
            if len(row) < self.most:
                row.append(picture)

    def compute(self) -> Array:
        return grid(self.kept)


def generation_metrics(classes: int, *, calls: bool) -> dict[str, Metric]:
    """The distance, the share that is called right where there are classes and a judge, and the pictures."""
    judged: dict[str, Metric] = {"called": Called()} if calls and classes else {}
    return {"frechet": Frechet(), **judged, "pictures": Pictures(classes)}
