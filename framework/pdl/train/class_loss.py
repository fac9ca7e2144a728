"""`ClassLoss`: what tasks learn classes by: cross-entropy, with weights for rare classes and less of what is easy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np

from pdl import ops
from pdl.data import labels_of
from pdl.dtype import Array
from pdl.errors import ConfigError, listed
from pdl.hints import Range
from pdl.suites import suggest
from pdl.tensor import Tensor, as_tensor

ClassWeights = Literal["balanced"] | Mapping[str, float]
Gamma = Annotated[float, Range(0)]

_SURE = 1e-7  # least 1 - p, so that a power below 1 has a gradient


class ClassLoss:
    """Mean of -w[y] (1 - p[y])^gamma log p[y] over a batch of logits [N, C], p their softmax; it is divided by the sum
    of the weights w[y]. With gamma 0 this is cross-entropy, otherwise the focal loss (Lin et al., arXiv 1708.02002).

    weights  by the name of the class, 1 for one that is not named; "balanced": N / (C N_c), with N_c of the N training
             samples in class c, so that all classes count alike
    gamma    how much less samples count that are classified well already
    """

    def __init__(self, weights: ClassWeights | None = None, gamma: float = 0.0) -> None:
        self.weights, self.gamma = weights, gamma
        self.weight: Tensor | None = None

    def fit(self, classes: Sequence[str], datasets: Mapping[str, Any]) -> None:
        """Find the weight of each class, from the training data where that takes any; without it (a run is evaluated)
        nothing is to be learned.

        Raises ConfigError for a name that is no class, a weight below 0, and data that does not say its classes.
        """
        train = datasets.get("train")
        if isinstance(self.weights, Mapping):
            self.weight = Tensor(_named({str(name): value for name, value in self.weights.items()}, classes))
        elif self.weights is not None and train is not None:
            counts = np.bincount(labels_of(train, "task.class_weights=balanced"), minlength=len(classes))
            share = counts.sum() / (counts > 0).sum()
            self.weight = Tensor((share / np.maximum(counts, 1)).astype(np.float32))

    def __call__(self, logits: Tensor, labels: Any, *, smoothing: float = 0.0) -> Tensor:
        """labels int [N], or float [N, C]: shares of the classes, which MixUp and CutMix give; then the mean is over
        the samples. `smoothing` of each target is spread evenly over all classes."""
        target = as_tensor(labels)
        if not self.gamma:
            return ops.cross_entropy(logits, target, weight=self.weight, label_smoothing=smoothing)
        classes, hard = int(logits.shape[-1]), target.ndim == 1
        shares = ops.one_hot(target, classes, dtype=logits.dtype) if hard else target
        weighted = shares if self.weight is None else shares * self.weight
        total = weighted.sum() if hard else shares.sum()
        if smoothing:
            weighted = (shares * (1 - smoothing) + smoothing / classes) * (1.0 if self.weight is None else self.weight)
        log_p = ops.log_softmax(logits, axis=-1)
        easy = ops.pow(ops.clip(1.0 - ops.exp(log_p), _SURE, 1.0), self.gamma)
        return -(weighted * easy * log_p).sum() / total


def _named(weights: Mapping[str, float], classes: Sequence[str]) -> Array:
    unknown = next((name for name in weights if name not in classes), None)
    if unknown is not None:
        raise ConfigError(
            f"task.class_weights: {unknown!r} is none of the classes {listed(classes)}{suggest(unknown, classes)}"
        )
    found = np.array([weights.get(name, 1.0) for name in classes], np.float32)
    if not (np.isfinite(found).all() and (found >= 0).all() and found.any()):
        raise ConfigError(f"task.class_weights: {dict(weights)}; weights are 0 or more, and not all 0")
    return found


__all__ = ["ClassLoss", "ClassWeights", "Gamma"]
