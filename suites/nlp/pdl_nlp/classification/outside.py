"""Texts that belong to none of the classes: a model says so where it is sure of no class.

The answer is that of the highest log p, where the samples outside have a class of their own whose "log p" is a
constant, log t: it is the answer where no class has a probability of t (the maximum softmax probability; Hendrycks &
Gimpel, arXiv 1610.02136). The constant is a buffer of the model, chosen on validation data.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import pdl
from pdl.dtype import Array
from pdl.nn import Module
from pdl.tensor import Tensor

NEVER = -1e4  # log t before there is a threshold


class Outside(Module):
    """A model of texts with the class "outside" behind its own: tokens int64 [N, T] -> [N, C + 1], log p of its C
    classes and log t."""

    def __init__(self, net: Module) -> None:
        self.net: Any = net

    def forward(self, tokens: Tensor) -> Tensor:
        log_p = pdl.log_softmax(self.net(tokens), axis=-1)
        return pdl.concat([log_p, log_p[:, :1] * 0.0 + self.net.threshold], axis=-1)


def with_threshold(net: Module) -> Module:
    """The model, with a buffer for log t."""
    net.register_buffer("threshold", np.array([NEVER], np.float32), exact=True)
    return net


def threshold(log_p: Array, right: Array, outside: Array) -> float:
    """The log t with which most samples are answered rightly: those inside whose class is the best and has at least t,
    and those outside where no class has t (as Larson et al., arXiv 1909.02027, choose it). Of several the middle of the
    widest range.

    log_p float [N], that of the best class; right bool [N], whether it is the sample's; outside bool [N]
    """
    order = np.argsort(log_p, kind="stable")
    log_p, right, outside = log_p[order].astype(np.float64), right[order] & ~outside[order], outside[order]
    answered = right.sum() + np.concatenate([[0], np.cumsum(outside.astype(np.int64) - right)])  # t above so many
    low, high = np.concatenate([[log_p[0] - 1.0], log_p]), np.concatenate([log_p, [0.0]])
    answered[high <= low] = -1  # no room between equal ones
    best = np.flatnonzero(answered == answered.max())
    at = best[np.argmax((high - low)[best])]
    return float((low[at] + high[at]) / 2)
