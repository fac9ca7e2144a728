"""Segment reductions."""

from __future__ import annotations

import numpy as np

from pdl.ops.segment import (
    segment_count,
    segment_max,
    segment_mean,
    segment_min,
    segment_softmax,
    segment_sum,
    segment_take,
)

from .case import Case, Draws

draw = Draws(24)
f, distinct = draw.f, draw.distinct
IDS = np.array([2, 0, 2, 4, 0, 2, -1])  # unsorted; segments 1 and 3 are empty, one row belongs to none
SORTED = np.array([0, 0, 1, 3, 3, 3, 3], np.int32)


def _reduce(body):
    def reference(x, ids, num_segments):
        return np.stack([body(x[ids == s]) if (ids == s).any() else np.zeros(x.shape[1:]) for s in range(num_segments)])

    return reference


def softmax_ref(x, ids, num_segments):
    y = np.zeros_like(x)
    for s in range(num_segments):
        e = np.exp(x[ids == s])
        y[ids == s] = e / e.sum(0)
    return y


def take_ref(x, ids):
    return np.where((ids < 0).reshape(-1, *[1] * (x.ndim - 1)), 0, x[ids])


CASES = [
    *[
        Case(
            function,
            [distinct(7, *rest, gap=0.05), ids],
            _reduce(body),
            {"num_segments": 5},
            second=len(rest) < 2 and rest[:1] != (70,),
        )
        for function, body in (
            (segment_sum, lambda r: r.sum(0)),
            (segment_mean, lambda r: r.mean(0)),
            (segment_max, lambda r: r.max(0)),
            (segment_min, lambda r: r.min(0)),
        )
        for ids, rest in ((IDS, (3,)), (SORTED, (2, 2)), (IDS, (70,)), (SORTED, ()))
    ],
    Case(segment_softmax, [f(7, 2), np.abs(IDS)], softmax_ref, {"num_segments": 5}),
    Case(segment_softmax, [f(7) * 50, SORTED], softmax_ref, {"num_segments": 4}),
    Case(segment_take, [f(5, 3), IDS], take_ref),
    Case(segment_count, [IDS], lambda ids, num_segments: np.array([2, 0, 3, 0, 1]), {"num_segments": 5}),
]
