"""How well speakers are verified: trials of two recordings, and their errors over all thresholds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.ranking import equal_error_rate
from pdl.train.metrics import AUC, DetectionCost, EqualErrorRate, Metric

COSTS = (0.01, 0.05)  # p_target of minDCF
Listed = Sequence[tuple[bool, str, str]]


@dataclass(frozen=True)
class Scored:
    """Trials with their scores: recordings pairs[t] = (i, j), int64 [T, 2], are of one speaker, same[t] in {0, 1}, and
    have the cosine scores[t]. names and labels of recordings, [N]."""

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


class Trials(Metric):
    """Embeddings of recordings, and at the end their trials (`Scored`).

    most    trials at most: of more pairs so many are drawn with `seed`, half of them of one speaker if there are that
            many
    listed  trials by the names of their recordings, for a split that has all of them
    """

    def __init__(self, *, most: int = 100_000, seed: int = 0, listed: Listed = ()) -> None:
        self.most, self.seed, self.listed = most, seed, listed
        self._seen: list[tuple[Array, Array, Array, Sequence[str]]] = []

    def update(self, embeddings: Array, labels: Array, index: Array, names: Sequence[str]) -> None:
        """embeddings float [N, D] of length 1, labels int [N], index int [N] in the data set, names of the files."""
        self._seen.append((np.array(embeddings), np.array(labels), np.array(index), list(names)))

    @cached_property
    def scored(self) -> Scored:
        """The trials of all that was seen, in the order of the data set."""
        if not self._seen:
            empty = np.zeros(0, np.int64)
            return Scored(np.zeros((0, 2), np.int64), np.zeros(0, np.float32), empty, [], empty)
        embeddings, labels, index = (np.concatenate([each[k] for each in self._seen]) for k in range(3))
        names = [name for each in self._seen for name in each[3]]
        order = np.argsort(index, kind="stable")
        embeddings, labels, names = embeddings[order], labels[order], [names[i] for i in order]
        found = listed_pairs(self.listed, names)
        pairs = drawn_pairs(labels, self.most, self.seed) if found is None else found[0]
        same = (labels[pairs[:, 0]] == labels[pairs[:, 1]]).astype(np.int64) if found is None else found[1]
        scores = np.concatenate(
            [np.einsum("td,td->t", *(embeddings[part[:, k]] for k in (0, 1))) for part in np.array_split(pairs, 64)]
        )
        return Scored(pairs, scores, same, names, labels)

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


class Separation(Metric):
    """1 - cosine of trials of one speaker, cosine (or 0, if it is below) of others, each kind's mean weighted half:
    what takes the place of a loss, which is defined for the speakers of training alone."""

    def __init__(self) -> None:
        self.value = float("nan")

    def update(self, scores: Array, same: Array) -> None:
        cosines = scores.astype(np.float64)
        if 0 < same.sum() < len(same):
            near, far = (1 - cosines[same > 0]).mean(), np.maximum(cosines[same == 0], 0).mean()
            self.value = float(near + far) / 2

    def compute(self) -> float:
        return self.value


class _Area(AUC):
    """AUC of one score a trial."""

    def update(self, outputs: Array, targets: Array) -> None:
        super().update(np.stack([np.zeros_like(outputs), outputs], axis=1), targets)


def speaker_metrics(trials: Trials) -> dict[str, Metric]:
    """EER, minDCF (p_target 0.01 and 0.05, costs 1), AUC, and the trials themselves."""
    costs = {f"min_dcf@{p:g}": DetectionCost(p_target=p) for p in COSTS}
    inner: Mapping[str, Metric] = {"eer": EqualErrorRate(), **costs, "auc": _Area(), "loss": Separation()}
    return {**{name: OfTrials(trials, metric) for name, metric in inner.items()}, "trials": trials}


# -- which trials ------------------------------------------------------------------------------------------------------
def drawn_pairs(labels: Array, most: int, seed: int) -> Array:
    """int64 [T, 2], i < j: all pairs of N recordings if these are at most `most`; otherwise that many, drawn with
    `seed`: all pairs of one speaker or half of `most`, whichever is less, and others. labels int [N]."""
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
    """Pairs int64 [T, 2] and labels int64 [T] of trials that name their recordings; None where these are not all among
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
