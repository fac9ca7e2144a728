"""What the classifiers have in common."""

from __future__ import annotations

from pdl.errors import ConfigError
from pdl.nn import Module
from pdl.tensor import Tensor
from pdl_quantum.circuits import Circuit


class Classifier(Module):
    """Base of the classifiers: numbers [B, D], or images [B, H, W, C] flattened row by row, to scores
    [B, num_classes]. A model defines `scores`, and `diagram`, the circuit that a report shows."""

    def __init__(self, num_features: int | None, num_classes: int | None) -> None:
        if num_features is None or num_classes is None:
            raise ConfigError(
                f"{type(self).__name__} needs num_features and num_classes, which its task takes from the data"
            )
        self.num_features, self.num_classes = num_features, num_classes

    def forward(self, x: Tensor) -> Tensor:
        return self.scores(x if len(x.shape) == 2 else x.reshape((x.shape[0], -1)))

    def scores(self, x: Tensor) -> Tensor:
        """Numbers [B, D] -> scores [B, num_classes]."""
        raise NotImplementedError(f"{type(self).__name__} must define scores")

    def diagram(self) -> Circuit:
        """The circuit that a report shows."""
        raise NotImplementedError(f"{type(self).__name__} must define drawn")
