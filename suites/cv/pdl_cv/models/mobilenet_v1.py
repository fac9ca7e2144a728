"""MobileNet: Howard et al., MobileNets: efficient convolutional neural networks for mobile vision applications, 2017
(arXiv 1704.04861).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, cast

import pdl
from pdl import nn
from pdl.hints import Range
from pdl.nn.blocks import ConvNorm, chain, initialise
from pdl_cv.models.blocks import take_pretrained

Width = Annotated[int, Range(1)]

#: (channels, stride) of the thirteen depthwise separable blocks, table 1
BLOCKS = [(64, 1), (128, 2), (128, 1), (256, 2), (256, 1), (512, 2), *[(512, 1)] * 5, (1024, 2), (1024, 1)]


class MobileNetV1(nn.Module):
    """x [N, H, W, in_channels] -> logits [N, num_classes]: a convolution and thirteen depthwise separable blocks.

    `width` multiplies all channels (1, 0.75, 0.5 and 0.25 in the paper); `stride` is that of the first convolution, 2
    in the paper, 1 for images of about 32 pixels; `activation` is relu in the paper, relu6 in the authors' code and
    in timm. `pretrained`: a name of the hub or a file.
    """

    head: ClassVar[str] = "classifier.1"
    stem: ClassVar[str] = "features.0.0"

    def __init__(
        self,
        *,
        width: Annotated[float, Range(above=0)] = 1.0,
        stride: Literal[1, 2] = 2,
        activation: Literal["relu", "relu6"] = "relu",
        in_channels: Width = 3,
        num_classes: Width = 1000,
        dropout: Annotated[float, Range(0, below=1)] = 0.001,
        pretrained: str | None = None,
    ) -> None:
        channels, act = int(32 * width), nn.ReLU6 if activation == "relu6" else nn.ReLU
        layers: list[nn.Module] = [ConvNorm(in_channels, channels, stride=stride, activation=act)]
        for base, step in BLOCKS:
            out = int(base * width)
            depthwise = ConvNorm(channels, channels, stride=step, groups=channels, activation=act)
            layers.append(nn.Sequential(depthwise, ConvNorm(channels, out, 1, activation=act)))
            channels = out
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(nn.Dropout(dropout), nn.Linear(channels, num_classes))
        initialise(self)
        take_pretrained(self, pretrained)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> logits [N, num_classes]."""
        stem, *blocks = self.features
        layers = [stem, *(layer for block in blocks for layer in cast(nn.Sequential, block))]
        return self.classifier(pdl.global_avg_pool(chain(layers, x)))  # type: ignore[no-any-return]

    def maps(self, x: pdl.Tensor) -> list[pdl.Tensor]:
        """x [N, H, W, C] -> what each block hands on."""
        found = [self.features[0](x)]
        for block in list(self.features)[1:]:
            found.append(chain(cast(nn.Sequential, block), found[-1]))
        return found


TASK = "classification"
VARIANTS: dict[str, dict[str, Any]] = {
    "mobilenet_v1": {"_target_": "pdl_cv.MobileNetV1"},
    "mobilenet_v1_075": {"_target_": "pdl_cv.MobileNetV1", "width": 0.75},
    "mobilenet_v1_050": {"_target_": "pdl_cv.MobileNetV1", "width": 0.5},
    "mobilenet_v1_025": {"_target_": "pdl_cv.MobileNetV1", "width": 0.25},
}

#: blocks of timm's stages
_COUNTS = (1, 2, 2, 6, 2)
_LAYERS = {"conv_dw": "0.0", "bn1": "0.1", "conv_pw": "1.0", "bn2": "1.1"}


def remap(model: MobileNetV1, state: Mapping[str, Any]) -> dict[str, Any]:
    """A timm state dict (arrays by name) in pdl's names and layouts; timm's nets have ReLU6, see `activation`."""
    names, number = {"conv_stem": "features.0.0", "bn1": "features.0.1", "classifier": "classifier.1"}, 1
    for stage, count in enumerate(_COUNTS):
        for block in range(count):
            names |= {f"blocks.{stage}.{block}.{a}": f"features.{number}.{b}" for a, b in _LAYERS.items()}
            number += 1
    owners = {name: name.rpartition(".") for name in state}
    return nn.from_torch(
        model, {f"{names.get(owner, owner)}.{kind}": state[name] for name, (owner, _, kind) in owners.items()}
    )
