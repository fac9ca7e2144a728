"""Target assignment written plainly: image by image, ground truth by ground truth, as the papers say it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from pdl.dtype import Array


def overlaps(a: Array, b: Array) -> Array:
    """Intersection over union [A, M] of boxes [A, 4] and [M, 4]; 0 where that is no number."""
    low, high = np.maximum(a[:, None, :2], b[None, :, :2]), np.minimum(a[:, None, 2:], b[None, :, 2:])
    width = np.maximum(high - low, 0)
    shared = width[..., 0] * width[..., 1]
    area_a, area_b = (np.maximum(x[:, 2:] - x[:, :2], 0).prod(1) for x in (a, b))
    union = area_a[:, None] + area_b[None] - shared
    share = np.divide(shared, union, out=np.zeros_like(shared), where=union > 0)
    return np.where(share > 0, np.minimum(share, 1), 0).astype(a.dtype)


def holds(boxes: Array, points: Array) -> Array:
    """Whether points [A, 2] lie in boxes [M, 4], [M, A]."""
    inside = (points[None] > boxes[:, None, :2]) & (points[None] < boxes[:, None, 2:])
    return np.asarray(inside.all(-1))


def first_best(values: Array, k: int) -> Array:
    """Where the k highest values stand that are above -infinity, best first, of equal ones the first."""
    order = np.argsort(-values, kind="stable")[:k]
    return order[values[order] > -np.inf]


def max_iou(
    anchors: Array, boxes: Array, labels: Array, *, positive: float, negative: float, best: bool, forced: bool
) -> Array:
    """See `max_iou_assign`."""
    index = np.full((len(boxes), anchors.shape[-2]), -1, np.int64)
    for n, (own, truth) in enumerate(zip(boxes, labels, strict=True)):
        valid = np.flatnonzero(truth >= 0)
        if not len(valid):
            continue
        iou = overlaps(anchors if anchors.ndim == 2 else anchors[n], own[valid])
        highest, which = iou.max(1), valid[iou.argmax(1)]
        index[n] = np.where(highest >= positive, which, np.where(highest < negative, -1, -2))
        peak = iou.max(0)
        if best and not forced:
            kept = ((iou == peak) & (peak > 0)).any(1)
            index[n][kept] = which[kept]
        for column, g in enumerate(valid):
            if forced and peak[column] > 0:
                index[n, iou[:, column].argmax()] = g
    return index


def atss(anchors: Array, boxes: Array, labels: Array, *, levels: tuple[int, ...], k: int) -> Array:
    """See `atss_assign`."""
    index = np.full((len(boxes), len(anchors)), -1, np.int64)
    centres = (anchors[:, :2] + anchors[:, 2:]) / 2
    starts = np.cumsum((0, *levels))
    for n, (own, truth) in enumerate(zip(boxes, labels, strict=True)):
        highest = np.zeros(len(anchors), anchors.dtype)
        for g in np.flatnonzero(truth >= 0):
            nearness = -(((own[g, :2] + own[g, 2:]) / 2 - centres) ** 2).sum(1)
            some = [first + first_best(nearness[first:last], k) for first, last in pairwise(starts)]
            places = np.concatenate([*some, np.zeros(0, np.int64)])
            if not len(places):
                continue
            share = overlaps(anchors[places], own[g : g + 1])[:, 0]
            wide = share.astype(np.float64)
            mean = wide[0] + (wide - wide[0]).mean()
            threshold = mean + (np.sqrt(((wide - mean) ** 2).sum() / (len(wide) - 1)) if len(wide) > 1 else 0)
            taken = (wide >= threshold) & (share > highest[places]) & holds(own[g : g + 1], centres[places])[0]
            index[n][places[taken]] = g
            highest[places[taken]] = share[taken]
    return index


def task_aligned(
    points: Array, predicted: Array, scores: Array, boxes: Array, labels: Array, *, k: int, alpha: float, beta: float
) -> tuple[Array, Array]:
    """See `task_aligned_assign`."""
    index = np.full(predicted.shape[:2], -1, np.int64)
    quality = np.zeros(predicted.shape[:2], predicted.dtype)
    for n, (own, truth) in enumerate(zip(boxes, labels, strict=True)):
        iou, measure = overlaps(predicted[n], own), np.full(index.shape[1], -np.inf)
        for g in np.flatnonzero(truth >= 0):
            score = scores[n, :, truth[g]]
            able = holds(own[g : g + 1], points)[0] & (iou[:, g] > 0) & (score > 0)
            t = np.full(len(points), -np.inf)
            t[able] = alpha * np.log(score[able], dtype=np.float64) + beta * np.log(iou[able, g], dtype=np.float64)
            for j in first_best(t.astype(predicted.dtype), k):
                if iou[j, g] > quality[n, j]:
                    index[n, j], quality[n, j], measure[j] = g, iou[j, g], t[j]
        for g in np.unique(index[n][index[n] >= 0]):
            mine = index[n] == g
            quality[n, mine] = np.exp(measure[mine] - measure[mine].max()) * quality[n, mine].max()
    return index, quality


def simota(
    points: Array, strides: Array, predicted: Array, scores: Array, boxes: Array, labels: Array, *, radius: float,
    k: int, weight: float,
) -> tuple[Array, Array]:  # fmt: skip
    """See `simota_assign`."""
    index = np.full(predicted.shape[:2], -1, np.int64)
    found = np.zeros(predicted.shape[:2], predicted.dtype)
    for n, (own, truth) in enumerate(zip(boxes, labels, strict=True)):
        valid = np.flatnonzero(truth >= 0)
        middle = (own[valid, :2] + own[valid, 2:]) / 2
        near = (np.abs(points[None] - middle[:, None]) < (radius * strides)[None, :, None]).all(-1)
        inside = holds(own[valid], points)
        places = np.flatnonzero((near | inside).any(0))
        if not len(places):
            continue
        iou = overlaps(predicted[n, places], own[valid]).T
        cost = np.stack([_cost(scores[n, places], label) for label in truth[valid]]) - weight * _log(iou + 1e-8)
        cost += np.where((near & inside)[:, places], 0, 1e5)
        takers = np.zeros((len(valid), len(places)), bool)
        for row in range(len(valid)):
            wanted = max(1, int(np.sort(iou[row])[::-1][:k].astype(np.float64).sum() + 1e-6))
            takers[row, first_best(-cost[row], wanted)] = True
        for column, j in enumerate(places):
            if takers[:, column].any():
                at = takers[:, column].argmax() if takers[:, column].sum() == 1 else cost[:, column].argmin()
                index[n, j], found[n, j] = valid[at], iou[at, column]
    return index, found


def _log(x: Array) -> Array:
    return np.log(np.maximum(x, x.dtype.type(1e-37)))


def _cost(scores: Array, label: int) -> Array:
    """Binary cross-entropy of probabilities [A, C] with one class, [A]."""
    wanted = np.arange(scores.shape[1]) == label
    return -np.where(wanted, _log(scores), _log(1 - scores)).sum(1)


def hungarian(cost: Array, labels: Array) -> Array:
    """See `hungarian_assign`: every ground truth in turn takes the query that a shortest path frees for it."""
    index = np.full(cost.shape[:2], -1, np.int64)
    for n, truth in enumerate(labels):
        valid = np.flatnonzero(truth >= 0)
        wide: Any = np.where(cost[n] < 1e12, np.maximum(cost[n], -1e12), 1e12).astype(np.float64)[:, valid]
        if len(valid) <= cost.shape[1]:
            for g, q in zip(valid, _columns(wide.T), strict=True):
                index[n, q] = g
        else:
            index[n] = valid[_columns(wide)]
    return index


def _columns(cost: Array) -> list[int]:
    """The column of each row (rows <= columns) of the lowest total cost."""
    rows, columns = cost.shape
    row_price, column_price, owner = np.zeros(rows), np.zeros(columns), np.full(columns, -1)
    for start in range(rows):
        length, before, done = np.full(columns, np.inf), np.full(columns, -1), np.zeros(columns, bool)
        row: Any = start
        reached, end = 0.0, -1
        while end < 0:
            way = reached + cost[row] - row_price[row] - column_price
            shorter = ~done & (way < length)
            length[shorter], before[shorter] = way[shorter], row
            nearest = int(np.where(done, np.inf, length).argmin())
            reached, done[nearest] = length[nearest], True
            if owner[nearest] < 0:
                end = nearest
            row = owner[nearest]
        row_price[start] += reached
        for c in np.flatnonzero(done):
            if c != end:
                row_price[owner[c]] += reached - length[c]
            column_price[c] -= reached - length[c]
        while end >= 0:
            row = before[end]
            last = np.flatnonzero(owner == row)
            owner[end] = row
            end = -1 if row == start else int(last[0])
    return [int(np.flatnonzero(owner == row)[0]) for row in range(rows)]


def hard_negatives(loss: Array, index: Array, *, ratio: float) -> Array:
    """See `hard_negatives`."""
    sampled = np.where(index == -1, -2, index)
    for n, own in enumerate(index):
        hardest = first_best(
            np.where((own == -1) & (loss[n] == loss[n]), loss[n], -np.inf), int(ratio * (own >= 0).sum())
        )
        sampled[n, hardest] = -1
    return sampled


def take(values: Array, index: Array) -> Array:
    """See `take_assigned`."""
    return np.stack([np.where((at >= 0).reshape(-1, *[1] * (own.ndim - 1)), own[np.maximum(at, 0)], 0)
                     for own, at in zip(values, index, strict=True)])  # fmt: skip


def targets(index: Array, labels: Array, quality: Array | None, classes: int) -> Array:
    """See `class_targets`."""
    y = np.zeros((*index.shape, classes), np.float32 if quality is None else quality.dtype)
    for n, a in zip(*np.nonzero(index >= 0), strict=True):
        if labels[n, index[n, a]] >= 0:
            y[n, a, labels[n, index[n, a]]] = 1 if quality is None else quality[n, a]
    return y


def sample(index: Array, seed: int, count: int, positives: int) -> Array:
    """See `sample_assigned`."""
    sampled = np.full(index.shape, -2, np.int64)
    for n, own in enumerate(index):
        draw = np.random.Generator(np.random.Philox([seed, n]))
        found, rest = np.flatnonzero(own >= 0), np.flatnonzero(own == -1)
        some = draw.permutation(found)[: min(len(found), positives)]
        kept = np.concatenate([some, draw.permutation(rest)[: count - len(some)]])
        sampled[n, kept] = own[kept]
    return sampled
