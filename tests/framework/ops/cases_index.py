"""Indexing, gather and scatter against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import pdl

from .case import Case, Draws

draw = Draws(13)
f, i = draw.f, draw.i
PLACES = np.array([[2, 0, -1], [1, 1, 2]])
MASK = np.array([[True, False, True], [False, False, True]])


def at(key: Any, name: str) -> Callable:
    """``x -> x[key]`` for tensors and arrays alike."""

    def getitem(x):
        return x[key]

    getitem.__name__ = f"getitem[{name}]"
    return getitem


KEYS = {
    "0": 0,
    "-1, 1": (-1, 1),
    "1:3": slice(1, 3),
    "::-2": slice(None, None, -2),
    "..., None, 0": (..., None, 0),
    ":, 1:, None": (slice(None), slice(1, None), None),
    "...": ...,
    "()": (),
    "ints": PLACES,
    "list": [0, 2],
    ":, ints": (slice(None), PLACES),
    "ints, :, ints": (PLACES, slice(None), PLACES),
    "ints, ints": (PLACES, PLACES[0]),
    "0, :, ints": (0, slice(None), PLACES),
    "None, 1, ints": (None, 1, PLACES[0]),
    "1:, ints, ::2": (slice(1, None), [0, 1], slice(None, None, 2)),
    "empty": ([],),
}


def index_by_mask(x):
    return x[MASK if isinstance(x, np.ndarray) else pdl.tensor(MASK)]


def index_by_mask_and_slice(x):
    return x[:, MASK[0], 1:]


def take_along_axis(x, indices, axis):
    return np.take_along_axis(x, indices, axis)


def scatter(x, indices, updates, axis):
    y = x.copy()
    np.put_along_axis(y, indices, updates, axis)
    return y


def scatter_add(x, indices, updates, axis):
    y = x.copy()
    for at_place in np.ndindex(indices.shape):
        where = list(at_place)
        where[axis] = indices[at_place]
        y[tuple(where)] += updates[at_place]
    return y


CASES = [
    *[Case(at(key, name), [f(3, 4, 3)], at(key, name)) for name, key in KEYS.items()],
    Case(index_by_mask, [f(2, 3, 2)], index_by_mask),
    Case(index_by_mask_and_slice, [f(2, 3, 3)], index_by_mask_and_slice),
    Case(at(0, "0"), [i(3)], at(0, "0")),
    Case(at(True, "True"), [np.array(2.5)], at(True, "True")),
    Case(pdl.take, [f(4, 3), np.array([1, 1, -1, 0])], np.take, {"axis": 0}),
    Case(pdl.take, [f(2, 3, 2), PLACES], np.take, {"axis": 1}),
    Case(pdl.take, [f(2, 3, 2), np.array(1)], np.take, {"axis": -1}),
    Case(pdl.gather, [f(3, 4), i(3, 2, high=4)], take_along_axis, {"axis": 1}),
    Case(pdl.gather, [f(3, 4), i(5, 4, high=3)], take_along_axis, {"axis": 0}),
    Case(pdl.take_along_axis, [f(3, 4), i(1, 2, high=4)], take_along_axis, {"axis": 1}),
    Case(pdl.scatter, [f(3, 4), np.array([[1, 3], [0, 2], [-1, 0]]), f(3, 2)], scatter, {"axis": 1}),
    Case(pdl.scatter_add, [f(3, 4), i(3, 6, high=4), f(3, 6)], scatter_add, {"axis": 1}),
    Case(pdl.scatter_add, [f(3, 4), i(5, 4, high=3), f(5, 4)], scatter_add, {"axis": 0}),
]
