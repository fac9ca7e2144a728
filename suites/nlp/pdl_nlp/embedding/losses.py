"""Contrast within a batch."""

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
