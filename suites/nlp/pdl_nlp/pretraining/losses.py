"""Answering like another net."""

from __future__ import annotations

import pdl
from pdl.tensor import Tensor


def divergence(teacher: Tensor, student: Tensor, targets: Tensor, temperature: float) -> Tensor:
    """T^2 times the mean over positions of sum_c p_c log(p_c / q_c), with p and q the softmax of the scores [N, M, C]
    of teacher and student over T (Hinton et al., arXiv 1503.02531); T^2 keeps the size of gradients. Positions with a
    target below 0 [N, M] count nothing."""
    p, q = (pdl.log_softmax(each * (1 / temperature), axis=-1) for each in (teacher, student))
    each = (pdl.exp(p) * (p - q)).sum(axis=-1)
    real = pdl.astype(targets >= 0, each.dtype)
    return (each * real).sum() / pdl.maximum(real.sum(), 1.0) * temperature**2
