"""Distances of all pairs of rows against NumPy's broadcasting."""

from __future__ import annotations

import numpy as np

from pdl.ops.base import apply
from pdl.ops.distance import CDistGrad, cdist

from .case import Case, draws

f, _ = draws(20)


def by_pairs(x, y, *, metric):
    u = x[:, None] - y[None]
    half = x.shape[1] // 2
    if metric == "complex":
        return np.hypot(u[..., :half], u[..., half:]).sum(2)
    return np.abs(u).sum(2) if metric == "l1" else np.sqrt((u * u).sum(2))


def gradient(g, x, y, *, metric):
    return apply(CDistGrad(metric), g, x, y)[1]


def gradient_by_pairs(g, x, y, *, metric):
    u = x[:, None] - y[None]
    if metric == "complex":
        half = x.shape[1] // 2
        u = u / np.tile(np.hypot(u[..., :half], u[..., half:]), 2)
    elif metric == "l1":
        u = np.sign(u)
    return -np.einsum("nk,nkd->kd", g, u)


CASES = [
    *(Case(cdist, [f(n, d), f(k, d)], by_pairs, {"metric": metric})
      for metric in ("l1", "l2", "complex") for n, k, d in ((5, 3, 4), (1, 18, 38))),
    *(Case(gradient, [f(3, 2), f(3, 6), f(2, 6)], gradient_by_pairs, {"metric": metric})
      for metric in ("l1", "l2", "complex")),
]  # fmt: skip
