"""Embedding tables and bags."""

from __future__ import annotations

import numpy as np

from pdl.ops.base import apply
from pdl.ops.embedding import ServedEmbedding, ServedGradRows, embedding, embedding_bag
from pdl.ops.sparse import SparseGrad, embedding_grad_rows

from .case import Case, Draws

draw = Draws(11)
f, distinct, i = draw.f, draw.distinct, draw.i
INDEX = np.array([[1, 4, 1], [0, 1, 2]])
REDUCE = {"sum": lambda r: r.sum(0), "mean": lambda r: r.mean(0), "max": lambda r: r.max(0)}


def bag_ref(table, index, offsets=None, mode="mean", padding_idx=None):
    bags = list(index) if offsets is None else np.split(index, offsets[1:])
    kept = [table[b[b != padding_idx] if padding_idx is not None else b] for b in bags]
    return np.stack([REDUCE[mode](r) if len(r) else np.zeros(table.shape[1]) for r in kept])


def weighted_bag(table, weights):
    """Sum of weighted rows; the index is fixed."""
    from pdl import Tensor

    return embedding_bag(table, Tensor(INDEX), mode="sum", weights=weights)


def served(table, index):
    """Rows from elsewhere; without a source those of the table."""
    return apply(ServedEmbedding(), table, index)


def served_rows(index, g):
    """Gradients of rows from elsewhere; without a source those of rows of the table."""
    return apply(ServedGradRows(None), index, g)


def by_rows(index, g, padding_idx=None):
    """Rows in use, each once, and the sums of their gradients."""
    flat, g = index.reshape(-1), g.reshape(-1, g.shape[-1])
    kept = (flat >= 0) & (flat != padding_idx)
    used = np.unique(flat[kept])
    rows, values = np.full(flat.size, -1), np.zeros(g.shape)
    rows[: used.size] = used
    np.add.at(values, np.searchsorted(used, flat[kept]), g[kept])
    return rows, values


def sum_of_gradients(x, g, h, at, less):
    """A dense gradient, and two sparse ones."""
    first, second = (SparseGrad(x.shape, *embedding_grad_rows(index, d)) for index, d in ((at, g), (less, h)))
    return x + (first * 2.0 + second)


def sum_reference(x, g, h, at, less):
    y = x.copy()
    np.add.at(y, at, 2 * g)
    np.add.at(y, less, h)
    return y


FLAT, OFFSETS = np.array([3, 1, 1, 0, 4]), np.array([0, 2, 2])

CASES = [
    Case(embedding, [f(5, 3), INDEX], lambda t, at: t[at]),
    Case(embedding, [f(5, 3), INDEX.astype(np.int32)], lambda t, at: t[at]),
    Case(embedding, [f(6, 70), i(9, high=6)], lambda t, at: t[at], second=False),
    Case(embedding, [f(5, 3), INDEX], lambda t, at, sparse: t[at], {"sparse": True}, grad=()),
    Case(served, [f(5, 3), INDEX], lambda t, at: t[at]),
    Case(served_rows, [INDEX, f(2, 3, 2)], by_rows),
    Case(embedding_grad_rows, [INDEX, f(2, 3, 2)], by_rows),
    Case(embedding_grad_rows, [INDEX - 1, f(2, 3, 2)], by_rows, {"padding_idx": 0}),
    Case(embedding_grad_rows, [i(40, high=3000), f(40, 33)], by_rows, second=False),
    Case(sum_of_gradients, [f(5, 2), f(2, 3, 2), f(2, 2), INDEX, INDEX[:, 1]], sum_reference),
    Case(embedding_bag, [f(5, 3), INDEX], bag_ref),
    *[
        Case(embedding_bag, [distinct(5, 2), FLAT, OFFSETS], bag_ref, {"mode": m, "padding_idx": 4}, grad=())
        for m in REDUCE
    ],
    *[Case(embedding_bag, [distinct(5, 2), FLAT, OFFSETS], bag_ref, {"mode": m}) for m in REDUCE],
    Case(weighted_bag, [f(5, 2), f(2, 3)], lambda t, w: (t[INDEX] * w[..., None]).sum(1)),
]
