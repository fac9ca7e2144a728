"""How often the reply that was given is found among others."""

from __future__ import annotations

from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.train.metrics import Metric
from pdl_nlp.dialogue.loader import candidates

CUTOFFS = (1, 2, 5)


class Places:
    """Of each sample, how many of the other candidates score higher than the reply that was given, and how many the
    same: int64 [N] both. Equal scores are in random order: measures are what is expected then."""

    def __init__(self, scores: Array) -> None:
        """scores float [N, candidates], those of the reply first."""
        own, others = scores[:, :1], scores[:, 1:]
        self.higher, self.same = (others > own).sum(axis=1), (others == own).sum(axis=1)

    def recall(self, k: int) -> float:
        """The share of replies among the k best (Lowe et al., SIGDIAL 2015, arXiv 1506.08909)."""
        return float(np.clip((k - self.higher) / (self.same + 1), 0, 1).mean()) if len(self.same) else float("nan")

    def reciprocal_rank(self) -> float:
        """The mean of 1 / rank."""
        most = int((self.higher + self.same).max(initial=0)) + 1
        sums = np.concatenate([[0.0], np.cumsum(1 / np.arange(1, most + 1))])
        each = (sums[self.higher + self.same + 1] - sums[self.higher]) / (self.same + 1)
        return float(each.mean()) if len(each) else float("nan")

    def measured(self) -> dict[str, float]:
        """All of them by name."""
        return {**{f"recall@{k}": self.recall(k) for k in CUTOFFS}, "mrr": self.reciprocal_rank()}


class Vectors:
    """Vectors of turns and of replies of a split, in the order of its samples.

    count  candidates, the reply that was given among them
    seed   of their draw
    """

    def __init__(self, count: int, seed: int) -> None:
        self.count, self.seed = count, seed
        self.held: list[tuple[Array, Array, Array, Array]] = []
        self._scores: Array | None = None

    def update(self, turns: Array, replies: Array, index: Array, texts: Array) -> None:
        """turns, replies float [N, C], index int [N]; texts int [N]: equal for replies of equal texts."""
        self.held.append(tuple(np.array(each) for each in (turns, replies, index, texts)))  # type: ignore[arg-type]
        self._scores = None

    @property
    def scores(self) -> Array:
        """float [N, count], those of the replies that were given first."""
        if self._scores is None:
            turns, replies, index, texts = (np.concatenate(each) for each in zip(*self.held, strict=True))
            order = np.argsort(index)
            drawn = order[candidates(texts[order].tolist(), self.count, self.seed)]
            self._scores = np.einsum("nc,nkc->nk", turns[order], replies[drawn])
        return self._scores


class DialogueMetric(Metric):
    """One measure of `Places`.

    feeds  whether this one hands batches on to `vectors`, which all share
    """

    def __init__(self, vectors: Vectors, name: str, *, feeds: bool = False) -> None:
        self.vectors, self.name, self.feeds = vectors, name, feeds

    def update(self, turns: Array, replies: Array, index: Array, texts: Array) -> None:
        if self.feeds:
            self.vectors.update(turns, replies, index, texts)

    def compute(self) -> Any:
        if not self.vectors.held:
            return float("nan")
        scores = self.vectors.scores
        return scores if self.name == "scores" else Places(scores).measured()[self.name]


def dialogue_metrics(count: int, seed: int) -> dict[str, Metric]:
    """Recall at cut-offs, MRR, and the scores of all candidates."""
    vectors = Vectors(count, seed)
    names = [*(f"recall@{k}" for k in CUTOFFS), "mrr", "scores"]
    return {name: DialogueMetric(vectors, name, feeds=name == names[0]) for name in names}
