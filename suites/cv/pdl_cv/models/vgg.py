"""VGG: Simonyan, Zisserman, Very deep convolutional networks for large-scale image recognition, ICLR 2015 (arXiv
1409.1556). Names are torchvision's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

import pdl
from pdl import nn
from pdl.hints import Range
from pdl.nn.blocks import initialise, require_size
from pdl_cv.models.blocks import flatten_as_torch, take_pretrained

Width = Annotated[int, Range(1)]

#: convolutions in each of the five stages, by depth: configurations A, B, D and E of table 1
DEPTHS = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}
CHANNELS = (64, 128, 256, 512, 512)


class VGG(nn.Module):
    """x [N, H, W, in_channels] -> logits [N, num_classes]: 3 x 3 convolutions in five stages, three linear layers.

    `batch_norm` puts a norm after every convolution. H and W are at least 32; the last maps are brought to 7 x 7 by
    adaptive pooling. `hidden` is the width of the first two linear layers, with 4096 nine tenths of all weights;
    `dropout` follows them. `pretrained`: a name of the hub or a file.
    """

    head: ClassVar[str] = "classifier.6"
    stem: ClassVar[str] = "features.0"
    least: ClassVar[int] = 32

    def __init__(
        self,
        depth: Literal[11, 13, 16, 19] = 16,
        *,
        batch_norm: bool = False,
        in_channels: Width = 3,
        num_classes: Width = 1000,
        hidden: Width = 4096,
        dropout: Annotated[float, Range(0, below=1)] = 0.5,
        pretrained: str | None = None,
    ) -> None:
        self.features = nn.Sequential(*_features(DEPTHS[depth], in_channels, batch_norm))
        self.avgpool = nn.AdaptiveAvgPool2d(7)
        self.classifier = nn.Sequential(
            nn.Linear(512 * 7 * 7, hidden),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(hidden, hidden),
            nn.ReLU(),
            nn.Dropout(dropout),
            nn.Linear(hidden, num_classes),
        )
        initialise(self)
        take_pretrained(self, pretrained)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> logits [N, num_classes]."""
        require_size(self, x, self.least)
        return self.classifier(flatten_as_torch(self.avgpool(self.features(x))))  # type: ignore[no-any-return]


def _features(counts: tuple[int, ...], channels: int, batch_norm: bool) -> Iterator[nn.Module]:
    """Convolutions, each with its norm and rectifier, and a maximum over 2 x 2 after every stage."""
    for count, width in zip(counts, CHANNELS, strict=True):
        for _ in range(count):
            yield nn.Conv2d(channels, width, 3, padding=1)
            if batch_norm:
                yield nn.BatchNorm2d(width)
            yield nn.ReLU()
            channels = width
        yield nn.MaxPool2d(2)


TASK = "classification"
VARIANTS: dict[str, dict[str, Any]] = {
    **{f"vgg{depth}": {"_target_": "pdl_cv.VGG", "depth": depth} for depth in DEPTHS},
    **{f"vgg{depth}_bn": {"_target_": "pdl_cv.VGG", "depth": depth, "batch_norm": True} for depth in DEPTHS},
}


def remap(model: VGG, state: Mapping[str, Any]) -> dict[str, Any]:
    """A torchvision state dict (arrays by name) in pdl's layouts; the names are the same."""
    return nn.from_torch(model, state)
