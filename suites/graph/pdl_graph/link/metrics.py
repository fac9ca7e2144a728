"""How well edges are distinguished from pairs without one: AUC, AP, hits@k, MRR, over all pairs of a split."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from pdl.ranking import auc, average_precision
from pdl.train.metrics import Metric

Array = np.ndarray


class Scores(Metric):
    """Keeps the scores [P] and labels [P] of every batch."""

    def __init__(self) -> None:
        self.kept: list[tuple[Array, Array]] = []

    def update(self, scores: Array, labels: Array) -> None:
        self.kept.append((scores.copy(), labels))

    def arrays(self) -> tuple[Array, Array]:
        """float32 [P] and int64 [P] of all batches, in their order."""
        if not self.kept:
            return np.empty(0, np.float32), np.empty(0, np.int64)
        scores, labels = zip(*self.kept, strict=True)
        return np.concatenate(scores), np.concatenate(labels)


class Measure(Metric):
    """A number computed of shared `Scores`, which whoever made both keeps up to date."""

    def __init__(self, scores: Scores, function: Callable[[Array, Array], float]) -> None:
        self.scores, self.function = scores, function

    def compute(self) -> float:
        return self.function(*self.scores.arrays())


def hits(scores: Array, labels: Array, k: int) -> float:
    """Share of the edges that score above the k-th best pair without one (Hu et al., arXiv 2005.00687); 1 where there
    are fewer than k of those, NaN without edges."""
    positive, negative = scores[labels == 1], scores[labels != 1]
    if not len(positive):
        return float("nan")
    return float((positive > np.partition(negative, -k)[-k]).mean()) if len(negative) >= k else 1.0


def reciprocal_rank(scores: Array, labels: Array) -> float:
    """Mean over the edges of 1 / rank, the rank of an edge among all pairs without one, equal scores counted half."""
    positive, negative = scores[labels == 1], np.sort(scores[labels != 1])
    low, high = (np.searchsorted(negative, positive, side) for side in ("left", "right"))  # type: ignore[call-overload]
    above = len(negative) - (low + high) / 2
    return float((1 / (1 + above)).mean()) if len(positive) else float("nan")


def link_metrics(ks: Sequence[int]) -> dict[str, Metric]:
    """auc, ap, mrr and hits@k for each k, over one store."""
    store = Scores()
    functions: dict[str, Callable[[Array, Array], float]] = {
        "auc": auc,
        "ap": average_precision,
        "mrr": reciprocal_rank,
        **{f"hits@{k}": partial(hits, k=k) for k in ks},
    }
    return {name: Measure(store, function) for name, function in functions.items()}
