"""How well the labels of nodes are predicted, where each gets as many as it has."""

from __future__ import annotations

from typing import Literal

import numpy as np

from pdl.dtype import Array
from pdl_graph.node.metrics import LabelF1


class TopF1(LabelF1):
    """F1 as `LabelF1`, where a node gets the labels that score best, as many as it truly has (the protocol of
    DeepWalk, arXiv 1403.6652, section 5.1.2): "micro" of all together, "macro" the mean over labels."""

    def __init__(self, average: Literal["micro", "macro"]) -> None:
        super().__init__(average)

    def update(self, scores: Array, labels: Array) -> None:
        super().update(best(scores, (labels > 0).sum(axis=1)).astype(np.float32), labels)


def best(scores: Array, counts: Array) -> Array:
    """bool [N, K]: the counts[i] largest of row i; of equal ones the first."""
    order = np.argsort(-scores, axis=1, kind="stable")
    found = np.zeros(scores.shape, bool)
    np.put_along_axis(found, order, np.arange(scores.shape[1]) < counts[:, None], axis=1)
    return found
