"""SqueezeNet: Iandola, Han, Moskewicz, Ashraf, Dally, Keutzer, SqueezeNet: AlexNet-level accuracy with 50x fewer
parameters and < 0.5 MB model size, 2016 (arXiv 1602.07360). 1.1 is the authors' later net of 2.4 times fewer products.
Names are torchvision's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

import pdl
from pdl import nn
from pdl.hints import Range
from pdl.nn.blocks import require_size
from pdl_cv.models.blocks import take_pretrained

Width = Annotated[int, Range(1)]

#: squeezed channels and half of those that come out, of the eight Fire modules
FIRES = ((16, 64), (16, 64), (32, 128), (32, 128), (48, 192), (48, 192), (64, 256), (64, 256))
#: kernel and channels of the stem, the Fire modules before which the maps are halved, and the least side of an image
VERSIONS: dict[str, tuple[int, int, tuple[int, ...], int]] = {
    "1_0": (7, 96, (0, 3, 7), 21),
    "1_1": (3, 64, (0, 2, 4), 17),
}


class Fire(nn.Module):
    """A squeezing 1 x 1 convolution, then 1 x 1 and 3 x 3 convolutions side by side, all with rectifiers."""

    def __init__(self, in_channels: int, squeezed: int, expanded: int) -> None:
        self.squeeze = nn.Conv2d(in_channels, squeezed, 1)
        self.expand1x1 = nn.Conv2d(squeezed, expanded, 1)
        self.expand3x3 = nn.Conv2d(squeezed, expanded, 3, padding=1)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> [N, H, W, 2 expanded]."""
        x = pdl.relu(self.squeeze(x))
        return pdl.relu(pdl.concat([self.expand1x1(x), self.expand3x3(x)], axis=-1))


class SqueezeNet(nn.Module):
    """x [N, H, W, in_channels] -> logits [N, num_classes]; figure 2 of the paper, left.

    The classifier is a convolution, averaged over space. H and W are at least 21 (version 1_0) or 17 (1_1).
    `pretrained`: a name of the hub or a file.
    """

    head: ClassVar[str] = "classifier.1"
    stem: ClassVar[str] = "features.0"

    def __init__(
        self,
        version: Literal["1_0", "1_1"] = "1_0",
        *,
        in_channels: Width = 3,
        num_classes: Width = 1000,
        dropout: Annotated[float, Range(0, below=1)] = 0.5,
        pretrained: str | None = None,
    ) -> None:
        kernel, channels, halved, self.least = VERSIONS[version]
        layers: list[nn.Module] = [nn.Conv2d(in_channels, channels, kernel, stride=2), nn.ReLU()]
        for number, (squeezed, expanded) in enumerate(FIRES):
            if number in halved:
                layers.append(nn.MaxPool2d(3, stride=2, ceil_mode=True))
            layers.append(Fire(channels, squeezed, expanded))
            channels = 2 * expanded
        self.features = nn.Sequential(*layers)
        final = nn.Conv2d(channels, num_classes, 1)
        self.classifier = nn.Sequential(nn.Dropout(dropout), final, nn.ReLU(), nn.GlobalAvgPool())
        _initialise(self, final)
        take_pretrained(self, pretrained)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> logits [N, num_classes]."""
        require_size(self, x, self.least)
        return self.classifier(self.features(x))  # type: ignore[no-any-return]


def _initialise(net: SqueezeNet, final: nn.Conv2d) -> None:
    """He et al., ICCV 2015, uniform, by fan in; the last convolution N(0, 0.01^2); biases 0."""
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
    nn.init.normal_(final.weight, std=0.01)


TASK = "classification"
VARIANTS: dict[str, dict[str, Any]] = {
    f"squeezenet{version}": {"_target_": "pdl_cv.SqueezeNet", "version": version} for version in VERSIONS
}


def remap(model: SqueezeNet, state: Mapping[str, Any]) -> dict[str, Any]:
    """A torchvision state dict (arrays by name) in pdl's layouts; the names are the same."""
    return nn.from_torch(model, state)
