"""Losses of matching: an item that fits a query against others that (as far as is known) do not.

All take `Compared`: fitting float [N], others float [N, K], and `known`, bool [N, K]: others that fit the query, too,
and so count for nothing. All return a 0-d tensor.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np

import pdl
from pdl.tensor import Tensor
from pdl_rec.models.matching import Compared
from pdl_rec.sampled_softmax import NEVER, sampled_softmax

Kind: TypeAlias = Literal["bpr", "bce", "hinge", "warp", "softmax"]


def matching_loss(
    kind: Kind,
    compared: Compared,
    *,
    known: Tensor | None = None,
    log_draws: Tensor | None = None,
    margin: float = 1.0,
    num_items: int = 0,
) -> Tensor:
    """The mean loss of N queries.

    bpr      -log sigmoid(fitting - other), mean over others (Rendle et al., arXiv 1205.2618)
    bce      log loss, 1 for the fitting and 0 for the others, mean over all of them (He et al., arXiv 1708.05031)
    hinge    max(0, margin - fitting + other), mean over others
    warp     see `warp`; of `num_items` items
    softmax  see `pdl_rec.sampled_softmax`; `log_draws` [K] or [N, K] is the logQ correction
    """
    if kind == "softmax":
        return sampled_softmax(compared.fitting, compared.others, known, log_draws).mean()
    fitting, others = pdl.expand_dims(compared.fitting, axis=1), compared.others
    if kind == "warp":
        return warp(fitting, others, known, margin, num_items)
    if kind == "bpr":
        return _mean(pdl.softplus(others - fitting), known)
    if kind == "hinge":
        return _mean(pdl.relu(others - fitting + margin), known)
    k = others.shape[1]
    return (pdl.softplus(-fitting).mean() + _mean(pdl.softplus(others), known) * k) / (1 + k)


def warp(fitting: Tensor, others: Tensor, known: Tensor | None, margin: float, num_items: int) -> Tensor:
    """Weston, Bengio, Usunier, "WSABIE: scaling up to large vocabulary image annotation", IJCAI 2011: the K others come
    in the order in which they were drawn; the first that violates the margin, at place j, is pushed away with weight
    L(floor((num_items - 1) / j)), L(r) = 1 + 1/2 + ... + 1/r: the fewer draws it took, the worse the rank must be.

        mean of L(...) max(0, margin - fitting + other_j)        (0 where none of the K violates it)
    """
    loss = pdl.relu(others - fitting + margin)
    violates = pdl.greater(loss, 0.0)
    if known is not None:
        violates = pdl.logical_and(violates, pdl.logical_not(known))
    counted = pdl.astype(violates, pdl.float32)
    first = pdl.logical_and(violates, pdl.equal(pdl.cumsum(counted, axis=1), 1.0))
    weights = pdl.as_tensor(warp_weights(others.shape[1], num_items))
    return (pdl.where(first, loss, 0.0) * weights).sum(axis=1).mean()


def warp_weights(k: int, num_items: int) -> np.ndarray:
    """L(floor((num_items - 1) / j)) for j = 1 ... k, float32 [k]."""
    harmonic = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, max(num_items, 2)))])
    return harmonic[(num_items - 1) // np.arange(1, k + 1)].astype(np.float32)


def all_items(scores: Tensor, items: Tensor, known: Tensor | None = None) -> Tensor:
    """Mean cross-entropy of the fitting items, int64 [N], among all: scores [N, num_items + 1], of which column 0, and
    those where `known`, bool of the same shape, is true, count for nothing (the fitting one always does)."""
    columns = scores.shape[1]
    nothing = pdl.as_tensor(np.arange(columns) == 0)
    own = pdl.equal(pdl.as_tensor(np.arange(columns)), pdl.expand_dims(items, axis=1))
    out = nothing if known is None else pdl.logical_or(known, nothing)
    return pdl.cross_entropy(pdl.where(pdl.logical_and(out, pdl.logical_not(own)), NEVER, scores), items)


def _mean(loss: Tensor, known: Tensor | None) -> Tensor:
    """Mean over [N, K] of what counts."""
    if known is None:
        return loss.mean()
    counts = 1.0 - pdl.astype(known, loss.dtype)
    return (loss * counts).sum() / pdl.maximum(counts.sum(), 1.0)
