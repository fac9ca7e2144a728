"""What is measured of embeddings: whether the nearest ones are of the same class, and how well trials of two are told,
over all thresholds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.ranking import Lists, equal_error_rate, roc_curve, top_products
from pdl.train.metrics import AUC, Metric

Listed = Sequence[tuple[bool, str, str]]
NEAREST = 10  # others of each sample that are found at least


@dataclass(frozen=True)
class Scored:
    """Trials with their scores: samples pairs[t] = (i, j), int64 [T, 2], are of one class, same[t] in {0, 1}, and
    have the cosine scores[t]. names and labels of samples, [N]."""

    pairs: Array
    scores: Array
    same: Array
    names: Sequence[str]
    labels: Array

    def threshold(self) -> float:
        """The cosine where misses are as frequent as false alarms; in the middle of the gap that it is the end of. NaN
        without trials of both kinds."""
        _, found = equal_error_rate(self.scores, self.same)
        below = self.scores[self.scores < found]
        return (found + float(below.max())) / 2 if len(below) else found


@dataclass(frozen=True)
class Neighbours:
    """The nearest samples of each of N others, best first.

    scores  float32 [N, K], cosines
    nearest int64 [N, K], which samples
    labels  int64 [N]
    index   int64 [N], their numbers in the data set
    names   of their files
    """

    scores: Array
    nearest: Array
    labels: Array
    index: Array
    names: Sequence[str]

    @cached_property
    def right(self) -> Array:
        """bool [N, K]: of the same class."""
        found: Array = self.labels[self.nearest] == self.labels[:, None]
        return found

    @cached_property
    def others(self) -> Array:
        """int64 [N]: how many others of its class each sample has. Those without any are no queries."""
        _, place, counts = np.unique(self.labels, return_inverse=True, return_counts=True)
        found: Array = counts[place] - 1
        return found

    def recall(self, k: int) -> float:
        """Recall@k: the share of queries with one of their class among the k nearest."""
        queries = self.others > 0
        return float(self.right[queries, :k].any(axis=1).mean()) if queries.any() else float("nan")

    def mean_average_precision(self) -> float:
        """MAP@R (Musgrave et al., arXiv 2003.08505, section 3.2): the mean over queries of the sum over i up to R of
        right(i) precision(i), over R, the number of others of the query's class."""
        queries = np.flatnonzero(self.others)
        if not len(queries):
            return float("nan")
        right, counts = self.right[queries], self.others[queries]
        ranks = np.arange(1, right.shape[1] + 1)
        gained = np.cumsum(right, axis=1) / ranks * right * (ranks <= counts[:, None])
        return float((gained.sum(axis=1) / counts).mean())


class Trials(Metric):
    """Embeddings, and at the end their trials (`Scored`).

    most    trials at most: of more pairs so many are drawn with `seed`, half of them of one class if there are that
            many
    listed  trials by the names of their samples, for a split that has all of them
    """

    def __init__(self, *, most: int = 100_000, seed: int = 0, listed: Listed = ()) -> None:
        self.most, self.seed, self.listed = most, seed, listed
        self._seen: list[tuple[Array, Array, Array, Sequence[str]]] = []

    def update(self, embeddings: Array, labels: Array, index: Array, names: Sequence[str]) -> None:
        """embeddings float [N, D] of length 1, labels int [N], index int [N] in the data set, names of the files."""
        self._seen.append((np.array(embeddings), np.array(labels), np.array(index), list(names)))

    @cached_property
    def seen(self) -> tuple[Array, Array, Array, list[str]]:
        """Embeddings float [N, D], labels, indices and names of all, in the order of the data set."""
        embeddings, labels, index = (np.concatenate([each[k] for each in self._seen]) for k in range(3))
        names = [name for each in self._seen for name in each[3]]
        order = np.argsort(index, kind="stable")
        return embeddings[order], labels[order], index[order], [names[i] for i in order]

    @cached_property
    def scored(self) -> Scored:
        """The trials of all that was seen."""
        if not self._seen:
            empty = np.zeros(0, np.int64)
            return Scored(np.zeros((0, 2), np.int64), np.zeros(0, np.float32), empty, [], empty)
        embeddings, labels, _, names = self.seen
        found = listed_pairs(self.listed, names)
        pairs = drawn_pairs(labels, self.most, self.seed) if found is None else found[0]
        same = (labels[pairs[:, 0]] == labels[pairs[:, 1]]).astype(np.int64) if found is None else found[1]
        scores = np.concatenate(
            [np.einsum("td,td->t", *(embeddings[part[:, k]] for k in (0, 1))) for part in np.array_split(pairs, 64)]
        )
        return Scored(pairs, scores, same, names, labels)

    @cached_property
    def neighbours(self) -> Neighbours:
        """The nearest others of each sample that was seen: as many as the largest class has, but for the sample itself,
        and 10 at least, found exactly."""
        if not self._seen:
            none = np.zeros(0, np.int64)
            return Neighbours(np.zeros((0, 0), np.float32), np.zeros((0, 0), np.int64), none, none, [])
        embeddings, labels, index, names = self.seen
        count = len(labels)
        most = min(count - 1, max(int(np.bincount(labels).max()) - 1, NEAREST))
        itself = Lists.of_pairs(np.arange(count), np.arange(count), count)
        table = np.ascontiguousarray(embeddings, np.float32)
        return Neighbours(*top_products(table, table, most, first=0, excluded=itself), labels, index, names)

    def compute(self) -> Any:
        return self.scored


class OfTrials(Metric):
    """A metric of scores [T] and labels [T], over trials that another metric gathers."""

    def __init__(self, trials: Trials, metric: Metric) -> None:
        self.trials, self.metric = trials, metric

    def update(self, *outputs: Any) -> None:
        """Nothing: the trials are known at the end."""

    def compute(self) -> float | Array:
        found = self.trials.scored
        if len(found.scores):
            self.metric.update(found.scores, found.same)
        return self.metric.compute()


class OfNeighbours(Metric):
    """A number of the nearest samples (`Neighbours`) of embeddings that another metric gathers."""

    def __init__(self, trials: Trials, number: Callable[[Neighbours], float]) -> None:
        self.trials, self.number = trials, number

    def update(self, *outputs: Any) -> None:
        """Nothing: the nearest are known at the end."""

    def compute(self) -> float:
        return self.number(self.trials.neighbours)


class AcceptRate(Metric):
    """TAR at FAR: the largest share of trials of one class that a threshold accepts which accepts at most `far` of the
    others. scores float [N], labels [N] of 0 and 1; NaN without both."""

    def __init__(self, far: float) -> None:
        self.far, self.value = far, float("nan")

    def update(self, scores: Array, same: Array) -> None:
        if 0 < same.sum() < len(same):
            alarms, hits, _ = roc_curve(scores, same, drop_intermediate=False)
            self.value = float(hits[alarms <= self.far].max())

    def compute(self) -> float:
        return self.value


class Separation(Metric):
    """1 - cosine of trials of one class, cosine (or 0, if it is below) of others, each kind's mean weighted half:
    what takes the place of a loss, which is defined for the classes of training alone."""

    def __init__(self) -> None:
        self.value = float("nan")

    def update(self, scores: Array, same: Array) -> None:
        cosines = scores.astype(np.float64)
        if 0 < same.sum() < len(same):
            near, far = (1 - cosines[same > 0]).mean(), np.maximum(cosines[same == 0], 0).mean()
            self.value = float(near + far) / 2

    def compute(self) -> float:
        return self.value


class TrialsAUC(AUC):
    """AUC of one score a trial."""

    def update(self, outputs: Array, targets: Array) -> None:
        super().update(np.stack([np.zeros_like(outputs), outputs], axis=1), targets)


# -- which trials ------------------------------------------------------------------------------------------------------
def drawn_pairs(labels: Array, most: int, seed: int) -> Array:
    """int64 [T, 2], i < j: all pairs of N samples if these are at most `most`; otherwise that many, drawn with
    `seed`: all pairs of one class or half of `most`, whichever is less, and others. labels int [N]."""
    n = len(labels)
    if n * (n - 1) // 2 <= most:
        return np.stack(np.triu_indices(n, 1), axis=1).astype(np.int64)
    rng = np.random.default_rng(seed)
    groups = [np.flatnonzero(labels == label) for label in np.unique(labels)]
    same = np.concatenate([rows[np.stack(np.triu_indices(len(rows), 1), axis=1)] for rows in groups])
    if len(same) > most // 2:
        same = same[rng.choice(len(same), most // 2, replace=False)]
    other = np.empty(0, np.int64)
    wanted = min(most - len(same), (n * n - sum(len(rows) ** 2 for rows in groups)) // 2)
    while len(other) < wanted:
        i, j = np.sort(rng.integers(0, n, (2, 2 * wanted)), axis=0)
        drawn = np.concatenate([other, (i * n + j)[labels[i] != labels[j]]])
        other = drawn[np.sort(np.unique(drawn, return_index=True)[1])][:wanted]
    return np.concatenate([same, np.stack([other // n, other % n], axis=1)]).astype(np.int64)


def listed_pairs(listed: Listed, names: Sequence[str]) -> tuple[Array, Array] | None:
    """Pairs int64 [T, 2] and labels int64 [T] of trials that name their samples; None where these are not all among
    `names`, each once. Those may be longer paths that end in theirs."""
    if not listed:
        return None
    ends = {name for trial in listed for name in trial[1:]}
    depth = {name.count("/") + 1 for name in ends}
    shortened = [("/".join(name.split("/")[-parts:]), i) for parts in depth for i, name in enumerate(names)]
    found = [(name, i) for name, i in shortened if name in ends]
    place = dict(found)
    if not len(ends) == len(place) == len(found):
        return None
    pairs = np.array([(place[a], place[b]) for _, a, b in listed], np.int64)
    return pairs, np.array([same for same, _, _ in listed], np.int64)
