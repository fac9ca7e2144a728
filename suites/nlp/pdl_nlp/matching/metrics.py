"""How well candidates are ranked: MRR, MAP, NDCG and precision at 1, queries that have a relevant candidate counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.train.metrics import Metric

CUTOFFS = (3, 10)


class Rankings:
    """Scores and relevance of candidates of queries. Of equal scores the less relevant one stands before the other, so
    that a model which gives all the same gains nothing by the order of the data. Relevant is what has more than 0."""

    def __init__(self) -> None:
        self.held: list[tuple[Array, Array, Array, Array]] = []

    def update(self, scores: Array, relevance: Array, query: Array, index: Array) -> None:
        """scores, relevance float [N], query and index int [N]; rows with a query below 0 are left out."""
        kept = query >= 0
        given = (scores, relevance, query, index)
        self.held.append(tuple(np.array(each)[kept] for each in given))  # type: ignore[arg-type]
        self.__dict__.pop("ranked", None)

    @cached_property
    def ranked(self) -> Ranked:
        """All of it, ranked."""
        if not self.held:
            return Ranked.of(*(np.zeros(0, kind) for kind in (float, float, np.int64, np.int64)))
        return Ranked.of(*(np.concatenate(each) for each in zip(*self.held, strict=True)))


@dataclass(frozen=True)
class Ranked:
    """Candidates, each query's together and best first.

    relevance  float64 [N]
    rank       int64 [N]: of each among those of its query, from 1
    owner      int64 [N]: its query, numbered from 0
    index      int64 [N]: which sample it is
    count      queries
    """

    relevance: Array
    rank: Array
    owner: Array
    index: Array
    count: int

    @classmethod
    def of(cls, scores: Array, relevance: Array, query: Array, index: Array) -> Ranked:
        """Of candidates in any order: all [N]."""
        names, owner = np.unique(query, return_inverse=True)
        order = np.lexsort((relevance, -scores.astype(np.float64), owner))
        owner = owner[order].astype(np.int64)
        sizes = np.bincount(owner, minlength=len(names))
        rank = np.arange(1, len(owner) + 1) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return cls(relevance[order].astype(np.float64), rank, owner, index[order], len(names))

    @property
    def answerable(self) -> Array:
        """bool [count]: queries with a relevant candidate."""
        return self._sum(self.relevance > 0) > 0

    def mean(self, values: Array) -> float:
        """Of float [count] over the answerable queries; NaN where there are none."""
        kept = values[self.answerable]
        return float(kept.mean()) if len(kept) else float("nan")

    def reciprocal_rank(self) -> Array:
        """1 / rank of the first relevant candidate, float64 [count]; 0 without one."""
        found = np.zeros(self.count)
        hit = self.relevance > 0
        np.maximum.at(found, self.owner[hit], 1 / self.rank[hit])
        return found

    def average_precision(self) -> Array:
        """Mean over the relevant candidates of the precision among those that stand no lower, float64 [count]."""
        hit = self.relevance > 0
        before = np.cumsum(hit) - np.concatenate([[0], np.cumsum(self._sum(hit))])[self.owner]
        return self._sum(np.where(hit, before / self.rank, 0.0)) / np.maximum(self._sum(hit), 1)

    def ndcg(self, k: int) -> Array:
        """sum_(r <= k) (2^relevance - 1) / log2(1 + r), over the most that it can be (Jarvelin & Kekalainen 2002; gains
        of Burges et al., ICML 2005), float64 [count]."""
        best = np.lexsort((-self.relevance, self.owner))
        gains = 2.0**self.relevance - 1
        there = (self.rank <= k) / np.log2(1.0 + self.rank)
        return self._sum(gains * there) / np.maximum(self._sum(gains[best] * there), 1e-12)

    def precision_at_1(self) -> Array:
        """1 where the first candidate is relevant, float64 [count]."""
        return self._sum((self.rank == 1) & (self.relevance > 0))

    def _sum(self, values: Array) -> Array:
        return np.bincount(self.owner, values, minlength=self.count)


class RankingMetric(Metric):
    """The mean over queries of one measure of `Ranked`.

    rankings  what is measured, shared by all such metrics
    feeds     whether this one hands batches on to them
    """

    def __init__(self, rankings: Rankings, name: str, *, feeds: bool = False) -> None:
        self.rankings, self.name, self.feeds = rankings, name, feeds

    def update(self, scores: Array, relevance: Array, query: Array, index: Array) -> None:
        if self.feeds:
            self.rankings.update(scores, relevance, query, index)

    def compute(self) -> float:
        ranked = self.rankings.ranked
        if self.name.startswith("ndcg@"):
            return ranked.mean(ranked.ndcg(int(self.name.removeprefix("ndcg@"))))
        kinds = {"mrr": ranked.reciprocal_rank, "map": ranked.average_precision, "p@1": ranked.precision_at_1}
        return ranked.mean(kinds[self.name]())


@dataclass(frozen=True)
class WrongQuery:
    """A query whose first candidate is not relevant: the rank of the best relevant one, and their numbers."""

    rank: int
    first: int
    relevant: int


class WrongQueries(Metric):
    """The `keep` queries whose first relevant candidate stands lowest."""

    def __init__(self, rankings: Rankings, keep: int) -> None:
        self.rankings, self.keep = rankings, keep

    def update(self, scores: Array, relevance: Array, query: Array, index: Array) -> None:
        """The accumulator is fed by the first metric."""

    def compute(self) -> Any:
        ranked = self.rankings.ranked
        rows = np.flatnonzero(ranked.relevance > 0)
        at = rows[np.unique(ranked.owner[rows], return_index=True)[1]]  # of each query, its first relevant candidate
        worst = sorted(at[ranked.rank[at] > 1].tolist(), key=lambda row: (-ranked.rank[row], row))[: self.keep]
        return [
            WrongQuery(rank, int(ranked.index[row - rank + 1]), int(ranked.index[row]))
            for row in worst
            for rank in [int(ranked.rank[row])]
        ]


def ranking_metrics(mistakes: int = 0, cutoffs: Sequence[int] = CUTOFFS) -> dict[str, Metric]:
    """mrr, map, ndcg at cut-offs, p@1, and the worst queries, of one accumulator."""
    rankings = Rankings()
    names = ["mrr", "map", *(f"ndcg@{k}" for k in cutoffs), "p@1"]
    made: dict[str, Metric] = {name: RankingMetric(rankings, name, feeds=name == "mrr") for name in names}
    return {**made, "mistakes": WrongQueries(rankings, mistakes)}
