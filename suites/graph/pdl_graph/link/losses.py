"""Losses of links."""

from __future__ import annotations

from typing import Any

import pdl


def balanced_loss(logits: Any, label: Any) -> pdl.Tensor:
    """Half the mean cross-entropy of the ones plus half that of the zeros; an empty part counts 0."""
    label = pdl.as_tensor(label).astype(pdl.float32)
    ones = label.sum()
    zeros = (1.0 - label).sum()
    weight = 0.5 * (label / pdl.maximum(ones, 1.0) + (1.0 - label) / pdl.maximum(zeros, 1.0))
    each = pdl.binary_cross_entropy_with_logits(logits, label, reduction="none")
    return (each * weight).sum()
