"""MobileNetV3: Howard et al., Searching for MobileNetV3, ICCV 2019 (arXiv 1905.02244). Names are torchvision's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import pdl
from pdl import nn
from pdl.hints import Range
from pdl.nn.blocks import ConvNorm, SqueezeExcite, chain, divisible, initialise
from pdl_cv.models.blocks import take_pretrained

Width = Annotated[int, Range(1)]


class Row(NamedTuple):
    """One block: kernel, expanded and output channels, squeeze-and-excite?, hard swish (or ReLU)?, stride."""

    kernel: int
    expanded: int
    out: int
    squeeze: bool
    swish: bool
    stride: int


#: tables 1 and 2 of the paper, and the width of the hidden linear layer
LARGE = (
    [
        Row(3, 16, 16, False, False, 1),
        Row(3, 64, 24, False, False, 2),
        Row(3, 72, 24, False, False, 1),
        Row(5, 72, 40, True, False, 2),
        Row(5, 120, 40, True, False, 1),
        Row(5, 120, 40, True, False, 1),
        Row(3, 240, 80, False, True, 2),
        Row(3, 200, 80, False, True, 1),
        Row(3, 184, 80, False, True, 1),
        Row(3, 184, 80, False, True, 1),
        Row(3, 480, 112, True, True, 1),
        Row(3, 672, 112, True, True, 1),
        Row(5, 672, 160, True, True, 2),
        Row(5, 960, 160, True, True, 1),
        Row(5, 960, 160, True, True, 1),
    ],
    1280,
)
SMALL = (
    [
        Row(3, 16, 16, True, False, 2),
        Row(3, 72, 24, False, False, 2),
        Row(3, 88, 24, False, False, 1),
        Row(5, 96, 40, True, True, 2),
        Row(5, 240, 40, True, True, 1),
        Row(5, 240, 40, True, True, 1),
        Row(5, 120, 48, True, True, 1),
        Row(5, 144, 48, True, True, 1),
        Row(5, 288, 96, True, True, 2),
        Row(5, 576, 96, True, True, 1),
        Row(5, 576, 96, True, True, 1),
    ],
    1024,
)


class InvertedResidual(nn.Module):
    """Expand by 1 x 1, filter by depthwise, squeeze and excite, project by 1 x 1; plus x where the shapes allow."""

    def __init__(self, in_channels: int, row: Row, hidden: int, out: int, **norm: Any) -> None:
        activation = nn.Hardswish if row.swish else nn.ReLU
        expand = [ConvNorm(in_channels, hidden, 1, activation=activation, **norm)] if hidden != in_channels else []
        squeeze = [SqueezeExcite(hidden, divisible(hidden // 4))] if row.squeeze else []
        filtered = ConvNorm(hidden, hidden, row.kernel, stride=row.stride, groups=hidden, activation=activation, **norm)
        self.block = nn.Sequential(*expand, filtered, *squeeze, ConvNorm(hidden, out, 1, activation=None, **norm))
        self.residual = row.stride == 1 and in_channels == out

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> [N, H / stride, W / stride, out]."""
        return chain(self.block, x, residual=x if self.residual else None)


class MobileNetV3(nn.Module):
    """x [N, H, W, in_channels] -> logits [N, num_classes]; `size` is "large" or "small".

    `width` multiplies all channels. Where it is not 1, nets of `tensorflow`, the authors' code, differ from
    torchvision's: a block expands the channels that it gets, as they were rounded, and the hidden linear layer is
    never narrower than at width 1. `stride` is that of the first convolution, 2 in the paper, 1 for images of about 32
    pixels. `momentum` is that of the batch norms' running statistics: 0.01 in the paper, whose trainings take 100,000s
    of steps; after a few hundred steps such statistics are still those of the untrained net. `eps` is that of the
    norms. `reduced_tail` halves the channels of the last three blocks and what follows, for detection (table 6).
    `pretrained`: a name of the hub or a file.
    """

    head: ClassVar[str] = "classifier.3"
    stem: ClassVar[str] = "features.0.0"

    def __init__(
        self,
        size: Literal["large", "small"] = "large",
        *,
        width: Annotated[float, Range(above=0)] = 1.0,
        tensorflow: bool = False,
        stride: Literal[1, 2] = 2,
        in_channels: Width = 3,
        num_classes: Width = 1000,
        dropout: Annotated[float, Range(0, below=1)] = 0.2,
        momentum: Annotated[float, Range(0, 1)] = 0.1,
        eps: Annotated[float, Range(above=0)] = 1e-3,
        reduced_tail: bool = False,
        pretrained: str | None = None,
    ) -> None:
        norm: dict[str, Any] = {"eps": eps, "momentum": momentum}
        rows, full = LARGE if size == "large" else SMALL
        if reduced_tail:
            rows, full = _reduced(rows), full // 2
        before, channels = 16, divisible(16 * width)
        layers: list[nn.Module] = [ConvNorm(in_channels, channels, stride=stride, activation=nn.Hardswish, **norm)]
        for row in rows:
            expanded, out = divisible(row.expanded * width), divisible(row.out * width)
            if tensorflow:
                expanded = divisible(channels * row.expanded / before)
            layers.append(InvertedResidual(channels, row, expanded, out, **norm))
            before, channels = row.out, out
        last, hidden = 6 * channels, max(full, divisible(full * width)) if tensorflow else divisible(full * width)
        self.features = nn.Sequential(*layers, ConvNorm(channels, last, 1, activation=nn.Hardswish, **norm))
        self.last_conv = f"features.{len(layers)}"
        self.classifier = nn.Sequential(
            nn.Linear(last, hidden), nn.Hardswish(), nn.Dropout(dropout), nn.Linear(hidden, num_classes)
        )
        initialise(self)
        take_pretrained(self, pretrained)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> logits [N, num_classes]."""
        return self.classifier(pdl.global_avg_pool(self.features(x)))  # type: ignore[no-any-return]


def _reduced(rows: list[Row]) -> list[Row]:
    """The rows, the last three with half as many channels; the first of them expands what it gets as before."""
    *rest, first, second, third = rows
    halved = [row._replace(expanded=row.expanded // 2, out=row.out // 2) for row in (second, third)]
    return [*rest, first._replace(out=first.out // 2), *halved]


TASK = "classification"
_NARROW = {"_target_": "pdl_cv.MobileNetV3", "tensorflow": True}
VARIANTS: dict[str, dict[str, Any]] = {
    "mobilenet_v3_large": {"_target_": "pdl_cv.MobileNetV3", "size": "large"},
    "mobilenet_v3_large_075": {**_NARROW, "size": "large", "width": 0.75},
    "mobilenet_v3_small": {"_target_": "pdl_cv.MobileNetV3", "size": "small"},
    "mobilenet_v3_small_075": {**_NARROW, "size": "small", "width": 0.75},
}


def remap(model: MobileNetV3, state: Mapping[str, Any]) -> dict[str, Any]:
    """A torchvision state dict (arrays by name) in pdl's layouts; the names are the same."""
    return nn.from_torch(model, state)
