"""Losses of rankings: the candidates of a query against each other, by pairs or as a list.

All take scores float [N] and relevance float [N] of candidates, and query int64 [N], the number of the query that each
belongs to; those below 0 count for nothing. All give a 0-d tensor.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import pdl
from pdl.tensor import Tensor
from pdl_nlp.models.base import HUGE

Ranked: TypeAlias = Literal["binary", "hinge", "softmax", "listnet"]


def ranking_loss(kind: Ranked, scores: Tensor, relevance: Tensor, query: Tensor, *, margin: float = 1.0) -> Tensor:
    """The mean loss.

    binary   -log of the probability 1 / (1 + exp(-score)) of being relevant (above 0), or not: each by itself
    hinge    max(0, margin - better + worse), mean over the pairs of candidates of a query of which one is more
             relevant (Herbrich et al. 2000; as SimNet is trained on a query with a better and a worse title)
    softmax  -sum_j y_j log p_j, mean over queries: p the softmax of a query's scores, y its relevance as shares of 1
    listnet  the same with y the softmax of the relevance (the top one probabilities of Cao et al., "Learning to rank:
             from pairwise approach to listwise approach", ICML 2007)
    """
    real = pdl.astype(pdl.greater_equal(query, 0), scores.dtype)
    if kind == "binary":
        wanted = pdl.astype(pdl.greater(relevance, 0.0), scores.dtype)
        each = pdl.softplus(scores) - wanted * scores
        return (each * real).sum() / pdl.maximum(real.sum(), 1.0)
    rows, columns = pdl.expand_dims(query, axis=1), pdl.expand_dims(query, axis=0)
    together = pdl.astype(pdl.equal(rows, columns), scores.dtype)
    if kind == "hinge":
        better = pdl.greater(pdl.expand_dims(relevance, axis=1), pdl.expand_dims(relevance, axis=0))
        counted = pdl.astype(better, scores.dtype) * together * pdl.expand_dims(real, axis=1)
        missed = pdl.relu(margin - pdl.expand_dims(scores, axis=1) + pdl.expand_dims(scores, axis=0))
        return (missed * counted).sum() / pdl.maximum(counted.sum(), 1.0)
    log_p = scores - _log_sum(scores, together)
    if kind == "listnet":
        y = pdl.exp(relevance - _log_sum(relevance, together))
    else:
        y = relevance / pdl.maximum((together * pdl.expand_dims(relevance, axis=0)).sum(axis=1), 1e-12)
    queries = (real / together.sum(axis=1)).sum()
    return -(y * log_p * real).sum() / pdl.maximum(queries, 1.0)


def _log_sum(values: Tensor, together: Tensor) -> Tensor:
    """log sum_j exp(values_j) over those of the same query, [N]; together [N, N] of 0 and 1."""
    found: Tensor = pdl.logsumexp(pdl.expand_dims(values, axis=0) + (together - 1.0) * HUGE, axis=1)
    return found
