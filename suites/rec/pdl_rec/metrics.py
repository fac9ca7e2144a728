"""Quality of rankings: recall, precision, hit rate, MRR and NDCG at cut-offs, one number a metric, with the protocol.

    ranking = Ranking((10, 20))
    for items, target in batches:
        ranking.update(model.scores(items), target)
    ranking.compute()["recall@20"], ranking.protocol(num_items)

Two kinds of questions, by what `update` gets beside scores [N, n + 1] (column 0 is no item and never ranked):

- one target a row (int64 [N], what came next; 0 is an unknown item and always missed): r is its rank among the items.
  recall@k = hr@k = [r <= k], precision@k = [r <= k] / k, mrr@k = [r <= k] / r, ndcg@k = [r <= k] / log2(1 + r).
- a set of relevant items a row (`pdl.ranking.Lists`, what a user went on to like), as RecBole defines them
  (arXiv 2011.01731), with h hits among the k best: recall@k = h / |set|, precision@k = h / k, hr@k = [h > 0],
  mrr@k = 1 / rank of the first hit, ndcg@k = sum of 1 / log2(1 + rank) over the hits, divided by the most that
  min(|set|, k) hits can reach. Rows whose set is empty are left out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal, get_args

import numpy as np

from pdl.data.negatives import Negatives
from pdl.errors import ConfigError, UsageError
from pdl.ranking import Lists, Ties, ranks, top_k
from pdl.train.metrics import Metric

Array = np.ndarray[Any, Any]
Name = Literal["recall", "precision", "hr", "mrr", "ndcg"]

_TIES = {
    "conservative": "ties count against the target",
    "average": "a target shares the mean rank of its ties",
    "optimistic": "ties count for the target",
}


class Ranking:
    """Means over all rows that `update` has seen.

    cutoffs              the k
    names                of the metrics, each measured at every k
    ties                 of items that score the same as a target: "conservative", all are before it; "optimistic",
                         none; "average", half of them (with one target a row only). A model that gives all items one
                         score gets nothing from the first
    self_recommendation  False: the items in `seen` are not ranked, and a target among them is missed
    sampled              rank each target among so many items only, drawn with equal chances (with repetition, from
                         `seed` and the number of the row) from all but the target and, without self_recommendation,
                         the items in `seen`. Numbers of such an evaluation are far higher and order models otherwise
                         (Krichene and Rendle, KDD 2020). None: all items
    """

    def __init__(
        self,
        cutoffs: Iterable[int] = (5, 10, 20),
        *,
        names: Sequence[Name] = ("recall", "mrr", "ndcg"),
        ties: Ties = "conservative",
        self_recommendation: bool = True,
        sampled: int | None = None,
        seed: int = 0,
    ) -> None:
        self.cutoffs, self.names = tuple(cutoffs), tuple(names)
        if not self.cutoffs or min(self.cutoffs) < 1:
            raise ConfigError(f"cutoffs: {list(self.cutoffs)} are not numbers from 1 on")
        if ties not in _TIES or not set(self.names) <= set(get_args(Name)):
            raise ConfigError(f"ties={ties!r} is none of {', '.join(_TIES)}, or a metric of {self.names} none of "
                              f"{', '.join(get_args(Name))}")  # fmt: skip
        self.ties, self.self_recommendation, self.sampled, self.seed = ties, self_recommendation, sampled, seed
        self.rows = 0
        self._sums = np.zeros((len(self.names), len(self.cutoffs)))

    def update(self, scores: Array, targets: Array | Lists, seen: Array | Lists | None = None) -> None:
        """Take in a batch. scores [N, n + 1] float32 or float64; NaN and -infinity are
        for what is not to be recommended.

        seen   what each row has already: int64 [N, T] (zeros are left out) or Lists. Not read where they may be
               recommended again
        """
        if self.self_recommendation:
            seen = None
        elif seen is None:
            raise UsageError("Ranking: without self_recommendation, update needs the items that rows have seen")
        lists = seen if isinstance(seen, Lists) or seen is None else Lists.of_rows(seen)
        scores = np.asarray(scores)
        values = self._sets(scores, targets, lists) if isinstance(targets, Lists) else self._single(
            self.ranks(scores, np.asarray(targets), lists))  # fmt: skip
        self._sums += values.sum(axis=2)
        self.rows += values.shape[2]

    def ranks(self, scores: Array, targets: Array, seen: Lists | None = None) -> Array:
        """The rank of each row's target, float64 [N]; infinity where it is missed."""
        if self.sampled is None:
            return ranks(scores, targets, ties=self.ties, excluded=seen)
        taken = [np.arange(len(targets)), targets]
        if seen is not None:
            taken = [np.append(taken[0], np.repeat(taken[0], seen.lengths)), np.append(targets, seen.values)]
        known = taken[1] > 0
        positives = Lists.of_pairs(taken[0][known], taken[1][known], len(targets))
        draws = Negatives(scores.shape[1] - 1, seed=self.seed)
        others = draws.rows(np.arange(self.rows, self.rows + len(targets)), self.sampled, epoch=0, step=0,
                            positives=positives)  # fmt: skip
        some = np.take_along_axis(scores, np.concatenate([targets[:, None], others], axis=1), axis=1)
        missed = targets == 0
        if seen is not None:
            missed |= np.isin(np.arange(len(targets)) * scores.shape[1] + targets, _keys(seen, scores.shape[1]))
        some[missed, 0] = np.nan
        return ranks(some, np.zeros(len(targets), np.int64), ties=self.ties, first=0)

    def _single(self, rank: Array) -> Array:
        """Values of the metrics, [names, cutoffs, N]."""
        k = np.array(self.cutoffs)[:, None]
        hit = (rank <= k).astype(np.float64)
        found = {"recall": hit, "hr": hit, "precision": hit / k, "mrr": hit / rank, "ndcg": hit / np.log2(1 + rank)}
        return np.stack([found[name] for name in self.names])

    def _sets(self, scores: Array, relevant: Lists, seen: Lists | None) -> Array:
        """The same for sets of relevant items. A tie is decided by moving the relevant scores by one unit in the last
        place, down where it counts against them."""
        if self.ties == "average" or self.sampled is not None:
            raise UsageError(
                "Ranking: sets of relevant items want ties conservative or optimistic, and all items ranked"
            )
        width, rows = scores.shape[1], np.repeat(np.arange(len(relevant)), relevant.lengths)
        moved = scores.copy()
        moved[rows, relevant.values] = _moved(scores[rows, relevant.values], down=self.ties == "conservative")
        best = top_k(moved, min(max(self.cutoffs), width), excluded=seen)[1]
        hits = np.isin(np.arange(len(scores))[:, None] * width + best, _keys(relevant, width))
        some = relevant.lengths > 0
        return self._of_hits(hits[some].astype(np.float64), relevant.lengths[some])

    def _of_hits(self, hits: Array, sizes: Array) -> Array:
        gains = 1 / np.log2(np.arange(2, 2 + max(self.cutoffs)))
        first = np.where(hits.any(axis=1), hits.argmax(axis=1) + 1.0, np.inf)
        values = []
        for k in self.cutoffs:
            count, dcg = hits[:, :k].sum(axis=1), (hits[:, :k] * gains[: min(k, hits.shape[1])]).sum(axis=1)
            ideal = np.cumsum(gains)[np.minimum(sizes, k) - 1]
            found = {"recall": count / sizes, "hr": count > 0, "precision": count / k, "ndcg": dcg / ideal,
                     "mrr": (first <= k) / first}  # fmt: skip
            values.append(np.stack([found[name] for name in self.names]))
        return np.stack(values, axis=1)

    def compute(self) -> dict[str, float]:
        """{"recall@5": ..., ...}; NaN before the first row."""
        means = self._sums / self.rows if self.rows else np.full_like(self._sums, np.nan)
        return {
            f"{name}@{k}": float(means[i, j]) for j, k in enumerate(self.cutoffs) for i, name in enumerate(self.names)
        }

    def table(self) -> tuple[list[str], list[list[float]]]:
        """Column names, and a row for each cut-off: k, then its metrics."""
        found = self.compute()
        return ["k", *self.names], [[k, *(found[f"{name}@{k}"] for name in self.names)] for k in self.cutoffs]

    def metrics(self) -> dict[str, Metric]:
        """For `Task.metrics`: each number by its name, out of this one accumulator, which the first of them feeds."""
        views = {f"{name}@{k}": View(self, f"{name}@{k}") for k in self.cutoffs for name in self.names}
        next(iter(views.values())).feeds = True
        return dict(views)

    def protocol(self, num_items: int, *more: str) -> str:
        """How the numbers came about, for reports; `more` says what this class does not know ("events in order")."""
        among = f"full ranking over {num_items:,} items"
        if self.sampled is not None:
            among = f"ranking among {self.sampled} sampled of {num_items:,} items"
        own = "may be recommended again" if self.self_recommendation else "are not recommended again"
        return ", ".join([among, _TIES[self.ties], f"items seen before {own}", *more])


def _moved(scores: Array, *, down: bool) -> Array:
    """By one unit in the last place; from 0 to the smallest normal number, as smaller ones count as 0."""
    away, tiny = (scores.dtype.type(-np.inf if down else np.inf), np.finfo(scores.dtype).tiny)
    return np.where(np.abs(scores) < tiny, np.copysign(tiny, away), np.nextafter(scores, away))


def _keys(lists: Lists, width: int) -> Array:
    return np.repeat(np.arange(len(lists)), lists.lengths) * width + lists.values


class View(Metric):
    """One number of a `Ranking`.

    ranking  whose number it is
    name     of the number, such as recall@20
    """

    def __init__(self, ranking: Ranking, name: str) -> None:
        self.ranking, self.name, self.feeds = ranking, name, False

    def update(self, scores: Array, targets: Array | Lists, seen: Array | Lists | None = None) -> None:
        if self.feeds:
            self.ranking.update(scores, targets, seen)

    def compute(self) -> float:
        return self.ranking.compute()[self.name]


__all__ = ["Name", "Ranking", "View"]
