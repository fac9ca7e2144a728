"""AlexNet, in the one-column form that torchvision has: Krizhevsky, One weird trick for parallelizing convolutional
neural networks, 2014 (arXiv 1404.5997). Names are torchvision's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

import pdl
from pdl import nn
from pdl.hints import Range
from pdl.nn.blocks import require_size
from pdl_cv.models.blocks import flatten_as_torch, take_pretrained

Width = Annotated[int, Range(1)]


class AlexNet(nn.Module):
    """x [N, H, W, in_channels] -> logits [N, num_classes]: five convolutions, three linear layers.

    H and W are at least 63; the maps of the last convolution are brought to 6 x 6 by adaptive pooling. `hidden` is the
    width of the first two linear layers, `dropout` comes before them. `pretrained`: a name of the hub or a file.
    """

    head: ClassVar[str] = "classifier.6"
    stem: ClassVar[str] = "features.0"
    least: ClassVar[int] = 63

    def __init__(
        self,
        *,
        in_channels: Width = 3,
        num_classes: Width = 1000,
        hidden: Width = 4096,
        dropout: Annotated[float, Range(0, below=1)] = 0.5,
        pretrained: str | None = None,
    ) -> None:
        self.features = nn.Sequential(
            nn.Conv2d(in_channels, 64, 11, stride=4, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(3, stride=2),
            nn.Conv2d(64, 192, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(3, stride=2),
            nn.Conv2d(192, 384, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(384, 256, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(256, 256, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(3, stride=2),
        )
        self.avgpool = nn.AdaptiveAvgPool2d(6)
        self.classifier = nn.Sequential(
            nn.Dropout(dropout),
            nn.Linear(256 * 6 * 6, hidden),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Linear(hidden, num_classes),
        )
        take_pretrained(self, pretrained)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> logits [N, num_classes]."""
        require_size(self, x, self.least)
        return self.classifier(flatten_as_torch(self.avgpool(self.features(x))))  # type: ignore[no-any-return]


TASK = "classification"
VARIANTS: dict[str, dict[str, Any]] = {"alexnet": {"_target_": "pdl_cv.AlexNet"}}


def remap(model: AlexNet, state: Mapping[str, Any]) -> dict[str, Any]:
    """A torchvision state dict (arrays by name) in pdl's layouts; the names are the same."""
    return nn.from_torch(model, state)
