"""Products of pairs of vectors against the sum over the pairs."""

from __future__ import annotations

import numpy as np

from pdl.ops.base import apply
from pdl.ops.pairs import PairProductsGrad, pair_products

from .case import Case, draws

f, _ = draws(2)


def by_pairs(v):
    return sum((v[:, i] * v[:, j]).sum(1) for j in range(v.shape[1]) for i in range(j)) + np.zeros(len(v))


def gradient(g, v, total):
    return apply(PairProductsGrad(), g, v, total)


CASES = [
    Case(pair_products, [f(3, 4, 5)], by_pairs),
    Case(pair_products, [f(2, 1, 3)], by_pairs),
    Case(gradient, [f(3), f(3, 4, 5), f(3, 5)], lambda g, v, t: g[:, None, None] * (t[:, None] - v)),
]
