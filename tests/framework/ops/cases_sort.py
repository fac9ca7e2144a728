"""Order and data-dependent shapes against NumPy."""

from __future__ import annotations

import numpy as np

import pdl

from .case import Case, Draws, forward

draw = Draws(26)
f, distinct, i, b = draw.f, draw.distinct, draw.i, draw.b


def argsort(x, axis=-1, descending=False):
    return np.argsort(-x if descending else x, axis=axis, kind="stable")


def sort(x, axis=-1, descending=False):
    return np.take_along_axis(x, argsort(x, axis, descending), axis)


def topk(x, k, axis=-1, largest=True):
    order = np.take(argsort(x, axis, largest), range(k), axis)
    return np.take_along_axis(x, order, axis), order


def searchsorted(x, v, side="left"):
    return np.searchsorted(x, v, side)


def unique_all(x):
    return np.unique(x, return_index=True, return_inverse=True, return_counts=True)


BY_VALUES = "the shape of the result of"
CASES = [
    forward(pdl.argsort, [distinct(3, 4)], argsort),
    Case(pdl.argsort, [i(3, 20)], argsort, {"descending": True}),
    Case(pdl.argsort, [i(20, 3)], argsort, {"axis": 0}),
    Case(pdl.sort, [distinct(3, 4)], sort),
    Case(pdl.sort, [distinct(3, 4)], sort, {"axis": 0, "descending": True}),
    Case(pdl.topk, [distinct(3, 6)], topk, {"k": 2}),
    Case(pdl.topk, [distinct(6, 3)], topk, {"k": 6, "axis": 0, "largest": False}),
    Case(pdl.topk, [distinct(2, 90)], topk, {"k": 3}, second=False),
    Case(pdl.topk, [distinct(2, 90)], topk, {"k": 4, "largest": False}, second=False),
    forward(pdl.topk, [i(3, 200)], topk, {"k": 20}),
    forward(pdl.topk, [i(3, 200)], topk, {"k": 20, "largest": False}),
    forward(pdl.topk, [np.ones((2, 100), np.int64)], topk, {"k": 5}),
    forward(pdl.searchsorted, [np.array([0.0, 0.5, 0.5, 2.0]), f(3, 4)], searchsorted),
    Case(pdl.searchsorted, [np.array([0, 1, 1, 3]), i(9)], searchsorted, {"side": "right"}),
    Case(pdl.unique, [i(3, 9)], np.unique, untraceable=BY_VALUES),
    Case(pdl.unique_all, [i(3, 9)], unique_all, untraceable=BY_VALUES),
    Case(pdl.nonzero, [b(3, 4)], np.nonzero, untraceable=BY_VALUES),
    Case(pdl.nonzero, [i(9, high=2)], np.nonzero, untraceable=BY_VALUES),
]
