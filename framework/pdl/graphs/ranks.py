"""Ranks of nodes by the links between them."""

from __future__ import annotations

from typing import Any

import numpy as np

from pdl.errors import UsageError
from pdl.graphs import given
from pdl.graphs.neighbours import Neighbours
from pdl.kernels import graph as kernels

Array = np.ndarray[Any, Any]


def page_rank(
    indptr: Array,
    indices: Array,
    *,
    damping: float = 0.85,
    weights: Array | None = None,
    teleport: Array | None = None,
    tolerance: float = 1e-10,
    steps: int = 200,
) -> Array:
    """The chance to find a surfer at each node (Page and others 1999): float64 [N], sum 1.

    Lists hold the nodes that link to v. With chance `damping` the surfer follows a link of where it is, in proportion
    to `weights` [E]; otherwise, or without one, it goes to a node in proportion to `teleport` [N] (personalised; even
    if not given). Iterates until the changes add up to less than `tolerance`, or raises UsageError after `steps`.
    """
    near = Neighbours(indptr, indices)
    n, steps = near.num_nodes, given.whole("page_rank: steps", steps, 1)
    if not 0 <= damping < 1:
        raise UsageError(f"page_rank: damping={damping} must be at least 0 and below 1")
    if not n:
        return np.empty(0)
    if teleport is not None:
        given.demand_chances("page_rank: teleport", np.asarray(teleport, np.float64), n)
    weight = None if weights is None else np.ascontiguousarray(weights, np.float64)
    if weight is not None and not (weight.shape == near.indices.shape and np.all((weight >= 0) & (weight < np.inf))):
        raise UsageError(f"page_rank: weights must be {len(near.indices)} finite numbers, not negative")
    out = np.bincount(near.indices, weights=weight, minlength=n).astype(np.float64)
    jump = np.full(n, 1 / n) if teleport is None else np.asarray(teleport, np.float64) / np.sum(teleport)
    rank, new = jump.copy(), np.empty(n)
    share = np.divide(1.0, out, out=np.zeros(n), where=out > 0)
    for _ in range(steps):
        stuck = rank[out == 0].sum()
        kernels.pull(
            new, (1 - damping + damping * stuck) * jump, rank * share, near.indptr, near.indices, damping, weight
        )
        change = np.abs(new - rank).sum()
        rank, new = new, rank
        if change < tolerance:
            return rank
    raise UsageError(
        f"page_rank: changes still add up to {change:.3g} after {steps} steps; give more, or less tolerance"
    )


__all__ = ["page_rank"]
