"""Triangles and classes against NumPy; what is made without inputs is tested in test_tensor.py."""

from __future__ import annotations

import numpy as np

import pdl

from .case import Case, Draws

draw = Draws(7)
f, c, i = draw.f, draw.c, draw.i


def one_hot(x, num_classes, dtype="float32"):
    return np.eye(num_classes, dtype=dtype)[x]


CASES = [
    Case(pdl.tril, [f(3, 4)], np.tril),
    Case(pdl.tril, [f(2, 4, 3)], np.tril, {"k": -1}),
    Case(pdl.triu, [f(3, 4)], np.triu, {"k": 1}),
    Case(pdl.triu, [c(3, 3)], np.triu),
    Case(pdl.one_hot, [i(2, 3)], one_hot, {"num_classes": 5}),
    Case(pdl.one_hot, [i(4)], one_hot, {"num_classes": 6, "dtype": "int64"}),
    Case(pdl.meshgrid, [f(3), f(2)], np.meshgrid),
    Case(pdl.meshgrid, [f(3), f(2), f(4)], np.meshgrid, {"indexing": "ij"}),
]
