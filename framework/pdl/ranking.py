"""Places of scores among scores: ranks of targets, the highest of many, curves over all thresholds and the areas under
them; and whether probabilities are as good as they say. NumPy in, NumPy out.

Scores are float32 or float64 [N, C], a row a query and a column an item. Columns below `first` are never ranked: with
the default 1 column 0 stands for no item, as in `pdl.vocabulary`. NaN is below every number; numbers too small to be
normal (below 1.2e-38 in float32) count as 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np

from pdl.errors import DataError, ShapeError, UsageError
from pdl.kernels import ranking as kernels

Array = np.ndarray[Any, Any]
Ties = Literal["conservative", "average", "optimistic"]

_AT_ONCE = 1 << 24  # entries of heaps that `top_products` keeps: rows * k


@dataclass(frozen=True)
class Lists:
    """Numbers for each row, ascending and each once: row i has values[start[i]:start[i + 1]] (int64 [N + 1], [E])."""

    start: Array
    values: Array

    def __len__(self) -> int:
        return len(self.start) - 1

    def __getitem__(self, row: int) -> Array:
        return self.values[self.start[row] : self.start[row + 1]]

    @property
    def lengths(self) -> Array:
        """How many numbers each row has: int64 [N]."""
        return np.diff(self.start)

    @classmethod
    def of_pairs(cls, rows: Array, values: Array, count: int) -> Lists:
        """From pairs (row, value) in any order, of rows [0, count) and values from 0 on."""
        rows, values = np.asarray(rows, np.int64), np.asarray(values, np.int64)
        if rows.shape != values.shape or (len(rows) and (rows.min() < 0 or rows.max() >= count or values.min() < 0)):
            raise ShapeError(
                f"Lists: {rows.shape} rows in [0, {count}) and {values.shape} values from 0 on are expected"
            )
        wide = int(values.max()) + 1 if len(values) else 1
        pairs = np.unique(rows * wide + values)
        lengths = np.bincount(pairs // wide, minlength=count)
        return cls(np.concatenate(([0], np.cumsum(lengths))).astype(np.int64), pairs % wide)

    @classmethod
    def of_rows(cls, items: Array) -> Lists:
        """From int64 [N, T], zeros left out."""
        rows, columns = np.nonzero(items)
        return cls.of_pairs(rows, np.asarray(items)[rows, columns], len(items))

    def take(self, rows: Array) -> Lists:
        """The lists of these rows."""
        rows = np.asarray(rows, np.int64)
        lengths = self.lengths[rows]
        start = np.concatenate(([0], np.cumsum(lengths)))
        at = np.arange(start[-1]) + np.repeat(self.start[rows] - start[:-1], lengths)
        return Lists(start, self.values[at])


def _lists(excluded: Lists | None) -> dict[str, Array]:
    return {} if excluded is None else {"start": excluded.start, "excluded": excluded.values}


def ranks(
    scores: Array, targets: Array, *, ties: Ties = "conservative", first: int = 1, excluded: Lists | None = None
) -> Array:
    """The rank of column targets[i] in row i, 1 for the highest: float64 [N].

    1 + items scored higher + of those scored the same all ("conservative"), half ("average") or none ("optimistic").
    The columns in `excluded` are not ranked. A target that is excluded or below `first`, or whose score is NaN or
    -infinity, has no rank: infinity.
    """
    if ties not in get_args(Ties):
        raise UsageError(f"ranks: ties={ties!r} is none of {', '.join(get_args(Ties))}")
    scores = np.ascontiguousarray(scores)
    above, equal = np.empty(len(scores), np.int64), np.empty(len(scores), np.int64)
    kernels.count(above, equal, scores, np.ascontiguousarray(targets, np.int64), first=first, **_lists(excluded))
    found = 1.0 + above + {"conservative": 1.0, "average": 0.5, "optimistic": 0.0}[ties] * equal
    found[above < 0] = np.inf
    return found


def top_k(scores: Array, k: int, *, first: int = 1, excluded: Lists | None = None) -> tuple[Array, Array]:
    """The k highest scores of each row and their columns, [N, k] each, best first and of equal scores the lower column.

    Scores of -infinity and NaN are never among them; where fewer are left the rest is -infinity, column `first - 1`.
    """
    scores = np.ascontiguousarray(scores)
    values, indices = _room(len(scores), k, scores.dtype)
    kernels.top(values, indices, scores, first=first, **_lists(excluded))
    return values, indices


def top_products(
    queries: Array, table: Array, k: int, *, bias: Array | None = None, first: int = 1, excluded: Lists | None = None
) -> tuple[Array, Array]:
    """`top_k` of queries [N, C] @ table [M, C]^T + bias [M], exactly and without a matrix [N, M].

    Memory in addition to the results is proportional to N k; the table is read once for every 128 queries.
    """
    queries, table = np.ascontiguousarray(queries), np.ascontiguousarray(table)
    values, indices = _room(len(queries), k, queries.dtype)
    more = None if bias is None else np.ascontiguousarray(bias)
    step = max(128, _AT_ONCE // max(1, k))
    for begin in range(0, len(queries), step):
        rows = np.arange(begin, min(begin + step, len(queries)))
        lists = None if excluded is None else excluded if len(rows) == len(queries) else excluded.take(rows)
        part = slice(begin, begin + step)
        kernels.products(values[part], indices[part], queries[part], table, more, first=first, **_lists(lists))
    return values, indices


def _room(rows: int, k: int, dtype: Any) -> tuple[Array, Array]:
    if k < 0:
        raise UsageError(f"top: k={k} must not be negative")
    return np.empty((rows, k), dtype), np.empty((rows, k), np.int64)


def _binary(scores: Array, labels: Array, name: str) -> tuple[Array, Array]:
    scores, labels = np.asarray(scores).ravel(), np.asarray(labels).ravel()
    if scores.shape != labels.shape:
        raise ShapeError(f"{name}: {len(scores)} scores and {len(labels)} labels")
    if np.isnan(scores).any():
        raise DataError(f"{name}: the score at {int(np.isnan(scores).argmax())} is NaN")
    if not ((labels == 0) | (labels == 1)).all():
        at = int(((labels != 0) & (labels != 1)).argmax())
        raise DataError(f"{name}: the label at {at} is {labels[at]}; labels are 0 and 1")
    return scores, labels.astype(bool)


def auc(scores: Array, labels: Array) -> float:
    """Area under the ROC curve: how often a 1 scores higher than a 0, ties counted half. NaN without both labels.

    scores [N], labels [N] of 0 and 1.
    """
    scores, positive = _binary(scores, labels, "auc")
    return float(_areas(scores, positive, np.zeros(len(scores), np.int64), 1)[0])


def average_precision(scores: Array, labels: Array) -> float:
    """Mean over the ones of the precision among all that score at least as high as each: the area under the
    precision-recall curve as a step function. NaN without a one.

    scores [N], labels [N] of 0 and 1.
    """
    scores, positive = _binary(scores, labels, "average_precision")
    if not positive.any():
        return float("nan")
    _, ones, called = _thresholds(scores, positive)
    return float((np.diff(ones, prepend=0) * (ones / called)).sum() / ones[-1])


def grouped_auc(
    scores: Array, labels: Array, groups: Array, *, weight: Literal["samples", "clicks", "none"] = "samples"
) -> float:
    """The mean AUC of the groups that have both labels, each weighted by its samples, its ones, or not at all (GAUC;
    Zhu et al., arXiv 1706.06978). scores, labels and groups (of any type that sorts) [N]; NaN where no group has both.
    """
    scores, positive = _binary(scores, labels, "grouped_auc")
    if weight not in ("samples", "clicks", "none"):
        raise UsageError(f"grouped_auc: weight={weight!r} is none of samples, clicks, none")
    if len(groups) != len(scores):
        raise ShapeError(f"grouped_auc: {len(scores)} scores and {len(groups)} groups")
    names, numbers = np.unique(np.asarray(groups), return_inverse=True)
    areas = _areas(scores, positive, numbers.reshape(-1), len(names))
    counted = numbers if weight != "clicks" else numbers[positive]
    weights = np.ones(len(names)) if weight == "none" else np.bincount(counted, minlength=len(names))
    known = ~np.isnan(areas)
    return float(np.average(areas[known], weights=weights[known])) if known.any() else float("nan")


def _areas(scores: Array, positive: Array, groups: Array, count: int) -> Array:
    """The AUC of each group in [0, count): (sum of the ranks of its ones - p (p + 1) / 2) / (p n), equal scores sharing
    their mean rank, for p ones and n zeros."""
    order = np.lexsort((scores, groups)) if count > 1 else np.argsort(scores, kind="stable")
    scores, positive, groups = scores[order], positive[order], groups[order]
    size = np.bincount(groups, minlength=count)
    new = np.ones(len(scores), bool)  # where another score or group begins
    new[1:] = (scores[1:] != scores[:-1]) | (groups[1:] != groups[:-1])
    begin = np.flatnonzero(new)
    end = np.append(begin[1:], len(scores))
    mean = ((begin + end + 1) / 2)[np.cumsum(new) - 1] - (np.cumsum(size) - size)[groups]
    ones = np.bincount(groups, weights=positive, minlength=count)
    sums = np.bincount(groups, weights=np.where(positive, mean, 0.0), minlength=count)
    pairs = ones * (size - ones)
    return np.divide(sums - ones * (ones + 1) / 2, pairs, out=np.full(count, np.nan), where=pairs > 0)


def log_loss(probabilities: Array, labels: Array, *, eps: float = 1e-15) -> float:
    """Mean of -log of the probability given to what happened: labels [N] of 0 and 1, the probabilities [N] of 1, kept
    `eps` away from 0 and 1."""
    chances, positive = _binary(probabilities, labels, "log_loss")
    if len(chances) and not (chances.min() >= 0 and chances.max() <= 1):
        raise DataError(f"log_loss: probabilities in [{chances.min()}, {chances.max()}] are outside [0, 1]")
    if not len(chances):
        return float("nan")
    right = np.where(positive, chances, 1.0 - chances.astype(np.float64))
    return float(-np.log(np.clip(right, eps, 1.0)).mean())


def roc_curve(scores: Array, labels: Array, *, drop_intermediate: bool = True) -> tuple[Array, Array, Array]:
    """Receiver operating characteristic: (false positive rates, true positive rates, thresholds), float64 [P] each.

    Point i is what "1 where score >= thresholds[i]" reaches: the share of the zeros and of the ones that it calls 1.
    Thresholds fall from infinity (nothing is called 1) to the lowest score. The area below by trapezoids is `auc`.
    `drop_intermediate` leaves out points on the straight line between their neighbours. Rates of a label that is
    missing are NaN. scores [N], labels [N] of 0 and 1.
    """
    scores, positive = _binary(scores, labels, "roc_curve")
    thresholds, ones, called = _thresholds(scores, positive)
    thresholds, ones, zeros = np.append(np.inf, thresholds), np.append(0, ones), np.append(0, called - ones)
    if drop_intermediate and len(thresholds) > 2:
        ahead, up = np.diff(zeros), np.diff(ones)
        corner = ahead[1:] * up[:-1] != ahead[:-1] * up[1:]
        kept = np.concatenate(([True], corner, [True]))
        thresholds, ones, zeros = thresholds[kept], ones[kept], zeros[kept]
    return _share(zeros, zeros[-1]), _share(ones, ones[-1]), thresholds


def detection_error_curve(scores: Array, labels: Array) -> tuple[Array, Array, Array]:
    """Detection error tradeoff (Martin et al., Eurospeech 1997): (false alarms, misses, thresholds), float64 [P] each.

    Point i is what "1 where score >= thresholds[i]" does wrong: the share of the zeros that it calls 1, and that of the
    ones that it does not. Thresholds fall from infinity. Shares of a label that is missing are NaN.
    scores [N], labels [N] of 0 and 1.
    """
    alarms, hits, thresholds = roc_curve(scores, labels)
    return alarms, 1.0 - hits, thresholds


def equal_error_rate(scores: Array, labels: Array) -> tuple[float, float]:
    """EER, the share of false alarms where it is that of misses, on the straight line between the two points of
    `detection_error_curve` where they cross, and the threshold there. NaN without both labels.

    scores [N], labels [N] of 0 and 1.
    """
    alarms, misses, thresholds = detection_error_curve(scores, labels)
    if np.isnan(alarms[-1] + misses[-1]):
        return float("nan"), float("nan")
    at = int(np.argmax(alarms >= misses))  # alarms rise from 0 to 1, misses fall from 1 to 0: never the first
    before, after = misses[at - 1] - alarms[at - 1], alarms[at] - misses[at]
    share = float(before / (before + after))
    rate = alarms[at - 1] + share * (alarms[at] - alarms[at - 1])
    high = thresholds[at] if np.isinf(thresholds[at - 1]) else thresholds[at - 1]
    return float(rate), float(high + share * (thresholds[at] - high))


def minimum_detection_cost(
    scores: Array, labels: Array, p_target: float = 0.01, *, miss: float = 1.0, false_alarm: float = 1.0
) -> tuple[float, float]:
    """minDCF of NIST's speaker recognition evaluations: the least cost over all thresholds,

        miss p_target P(miss) + false_alarm (1 - p_target) P(false alarm),

    over that of the better constant answer, min(miss p_target, false_alarm (1 - p_target)); and the threshold that
    reaches it. NaN without both labels.

    scores [N], labels [N] of 0 and 1; p_target: how frequent ones are in use; miss, false_alarm: what mistakes cost.
    """
    if not 0 < p_target < 1:
        raise UsageError(f"minimum_detection_cost: p_target={p_target} must lie in (0, 1)")
    alarms, misses, thresholds = detection_error_curve(scores, labels)
    parts = miss * p_target, false_alarm * (1 - p_target)
    costs = (parts[0] * misses + parts[1] * alarms) / min(parts)
    at = int(np.argmin(costs))
    return float(costs[at]), float(thresholds[at])


def precision_recall_curve(scores: Array, labels: Array) -> tuple[Array, Array, Array]:
    """(precision [P + 1], recall [P + 1], thresholds [P]), float64, P different scores.

    Entry i is what "1 where score >= thresholds[i]" reaches: the share of ones among what it calls 1, and the share of
    the ones that it finds. Thresholds rise and recall falls; the last entry, precision 1 and recall 0, has no
    threshold. The sum of precision[i] (recall[i] - recall[i + 1]) is `average_precision`. Recall is NaN without a one.
    scores [N], labels [N] of 0 and 1.
    """
    scores, positive = _binary(scores, labels, "precision_recall_curve")
    thresholds, ones, called = _thresholds(scores, positive)
    recall = _share(np.append(0, ones), ones[-1] if len(ones) else 0)
    return np.append(1.0, ones / called)[::-1], recall[::-1], thresholds[::-1]


def _thresholds(scores: Array, positive: Array) -> tuple[Array, Array, Array]:
    """The different scores, descending (float64), and how many ones and how many of all score at least as high."""
    order = np.argsort(-scores.astype(np.float64), kind="stable")
    scores, found = scores[order].astype(np.float64), np.cumsum(positive[order])
    last = np.flatnonzero(np.append(scores[1:] != scores[:-1], True)[: len(scores)])  # of each run of equal scores
    return scores[last], found[last], last + 1


def _share(counts: Array, total: int) -> Array:
    return counts / total if total else np.full(len(counts), np.nan)


@dataclass(frozen=True)
class CalibrationBins:
    """Predictions in bins of equal width by their confidence: bin i of B holds those in (i / B, (i + 1) / B], the first
    one 0 as well.

    counts      predictions in each bin: int64 [B]
    confidence  their mean confidence, float64 [B], NaN where there are none
    accuracy    the share of them that is right, float64 [B], NaN where there are none
    """

    counts: Array
    confidence: Array
    accuracy: Array

    @property
    def expected_calibration_error(self) -> float:
        """ECE: the mean over all predictions of |accuracy - confidence| of their bin (Guo et al., arXiv 1706.04599,
        equation 5). NaN without predictions."""
        filled = self.counts > 0
        gaps = np.abs(self.accuracy - self.confidence)[filled]
        return float(np.average(gaps, weights=self.counts[filled])) if filled.any() else float("nan")


def calibration_bins(confidences: Array, correct: Array, *, bins: int = 15) -> CalibrationBins:
    """How often predictions were right, by how sure they were.

    confidences [N]: the probability of each predicted class, in [0, 1] (what rounding adds, up to 1e-5, is taken off).
    correct [N]: 1 where the prediction was right, 0 where not.
    """
    chances, right = _binary(confidences, correct, "calibration_bins")
    if bins < 1:
        raise UsageError(f"calibration_bins: bins={bins} must be at least 1")
    if len(chances) and not (chances.min() >= -1e-5 and chances.max() <= 1 + 1e-5):
        raise DataError(f"calibration_bins: confidences in [{chances.min()}, {chances.max()}] are outside [0, 1]")
    chances = np.clip(chances.astype(np.float64), 0.0, 1.0)
    at = np.clip(np.ceil(chances * bins).astype(np.int64) - 1, 0, bins - 1)
    counts = np.bincount(at, minlength=bins)
    sums = (np.bincount(at, weights=values, minlength=bins) for values in (chances, right))
    confidence, accuracy = (np.divide(s, counts, out=np.full(bins, np.nan), where=counts > 0) for s in sums)
    return CalibrationBins(counts, confidence, accuracy)


__all__ = [
    "CalibrationBins", "Lists", "Ties", "auc", "average_precision", "calibration_bins", "detection_error_curve",
    "equal_error_rate", "grouped_auc", "log_loss", "minimum_detection_cost", "precision_recall_curve", "ranks",
    "roc_curve", "top_k", "top_products",
]  # fmt: skip
