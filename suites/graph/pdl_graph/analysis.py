"""What the links of a graph say of its nodes: PageRank, connected components. NumPy in, NumPy out."""

from __future__ import annotations

import numpy as np

from pdl.compressed import integers
from pdl.dtype import Array
from pdl.errors import UsageError
from pdl.kernels import graph as kernels
from pdl_graph.neighbours import Neighbours, check_weights, count


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
    """The probability of a random surfer to be at each node (Page and others 1999): float64 [N], sum 1.

    Lists hold the nodes that link to v. With probability `damping` the surfer follows a link of where it is, in
    proportion to `weights` [E]; otherwise, or without one, it goes to a node in proportion to `teleport` [N]
    (personalised; by default uniform). Iterates until the changes add up to less than `tolerance`, or raises UsageError
    after `steps`.
    """
    near = Neighbours(indptr, indices)
    n, steps = near.num_nodes, count("page_rank: steps", steps, 1)
    if not 0 <= damping < 1:
        raise UsageError(f"page_rank: damping={damping} must be at least 0 and below 1")
    if not n:
        return np.empty(0)
    if teleport is not None:
        check_weights("page_rank: teleport", np.asarray(teleport, np.float64), n)
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


def components(source: Array, target: Array, n: int) -> tuple[Array, Array]:
    """(label int64 [n], tree bool [E]): the component of each node, whatever the direction of edges, numbered by their
    lowest nodes; and whether an edge joined two when all are taken in order, which makes a spanning forest."""
    source, target = integers(source), integers(target)
    wide = np.promote_types(source.dtype, target.dtype)
    label, tree = np.empty(n, np.int64), np.empty(len(source), np.uint8)
    kernels.components(label, tree, source.astype(wide, copy=False), target.astype(wide, copy=False))
    return label, tree.astype(bool)
