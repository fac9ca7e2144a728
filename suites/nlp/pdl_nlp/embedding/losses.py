"""Losses of the vectors of a batch of pairs."""

from __future__ import annotations

import numpy as np

import pdl
from pdl.tensor import Tensor


def info_nce(a: Tensor, b: Tensor, temperature: float) -> Tensor:
    """Mean over i of -log softmax_j(a_i . b_j / temperature) at j = i, and the same the other way round, halved: the
    second text of a pair among those of its batch (van den Oord et al., arXiv 1807.03748; the multiple negatives
    ranking of Henderson et al., arXiv 1705.00652). Vectors [N, C] of length 1."""
    scores = pdl.matmul(a, pdl.swapaxes(b, 0, 1)) * (1 / temperature)
    own = pdl.as_tensor(np.arange(int(a.shape[0])))
    return (pdl.cross_entropy(scores, own) + pdl.cross_entropy(pdl.swapaxes(scores, 0, 1), own)) * 0.5


def cosent(likeness: Tensor, scores: Tensor, temperature: float) -> Tensor:
    """log(1 + sum over i, j with s_i > s_j of e^((c_j - c_i) / temperature)) of pairs with cosines c and scores s, [N]:
    any two whose cosines are in another order than their scores cost (Su Jianlin, CoSENT, 2022,
    kexue.fm/archives/8847)."""
    off = (pdl.expand_dims(likeness, axis=0) - pdl.expand_dims(likeness, axis=1)) * (1 / temperature)
    ordered = pdl.expand_dims(scores, axis=1) > pdl.expand_dims(scores, axis=0)
    counted = pdl.reshape(pdl.where(ordered, off, -1e30), (-1,))
    return pdl.logsumexp(pdl.concat([pdl.zeros((1,), dtype=counted.dtype), counted]), axis=0)
