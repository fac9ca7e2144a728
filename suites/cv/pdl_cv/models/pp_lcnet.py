"""PP-LCNet: Cui et al., PP-LCNet: a lightweight CPU convolutional neural network, 2021 (arXiv 2109.15099). Names are
timm's (lcnet_*).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, cast

import pdl
from pdl import nn
from pdl.hints import Range
from pdl.nn.blocks import SqueezeExcite, divisible, initialise
from pdl.nn.fused import Raw, conv_norm, finish
from pdl_cv.models.blocks import take_pretrained

Width = Annotated[int, Range(1)]

#: kernel, channels, stride and squeeze-and-excite? of the blocks, in timm's stages; table 1
STAGES = [
    [(3, 32, 1, False)],
    [(3, 64, 2, False), (3, 64, 1, False)],
    [(3, 128, 2, False), (3, 128, 1, False)],
    [(3, 256, 2, False), (5, 256, 1, False)],
    [(5, 256, 1, False)] * 4,
    [(5, 512, 2, True), (5, 512, 1, True)],
]


class DepthwiseSeparable(nn.Module):
    """Depthwise convolution, squeeze and excite (or not), 1 x 1 convolution; hard swish behind both norms."""

    def __init__(self, in_channels: int, channels: int, *, kernel: int, stride: int, squeeze: bool) -> None:
        sizes = {"stride": stride, "padding": kernel // 2, "groups": in_channels}
        self.conv_dw = nn.Conv2d(in_channels, in_channels, kernel, bias=False, **sizes)
        self.bn1 = nn.BatchNorm2d(in_channels)
        self.se = SqueezeExcite(in_channels, in_channels // 4) if squeeze else None
        self.conv_pw, self.bn2 = nn.Conv2d(in_channels, channels, 1, bias=False), nn.BatchNorm2d(channels)

    def raw(self, x: pdl.Tensor | Raw) -> Raw:
        """x [N, H, W, C] -> [N, H / stride, W / stride, channels], norm and activation left to the next layer."""
        y: pdl.Tensor | Raw = conv_norm(x, self.conv_dw, self.bn1, "hardswish")
        if self.se is not None:
            y = self.se(finish(y))  # type: ignore[arg-type]
        return conv_norm(y, self.conv_pw, self.bn2, "hardswish")

    def forward(self, x: pdl.Tensor | Raw) -> pdl.Tensor:
        """x [N, H, W, C] -> [N, H / stride, W / stride, channels]."""
        return finish(self.raw(x))


class PPLCNet(nn.Module):
    """x [N, H, W, in_channels] -> logits [N, num_classes].

    `width` multiplies all channels but the last 1280; `stride` is that of the first convolution, 2 in the paper, 1 for
    images of about 32 pixels. `pretrained`: a name of the hub or a file.
    """

    head: ClassVar[str] = "classifier"
    stem: ClassVar[str] = "conv_stem"
    last_conv: ClassVar[str] = "conv_head"

    def __init__(
        self,
        *,
        width: Annotated[float, Range(above=0)] = 1.0,
        stride: Literal[1, 2] = 2,
        in_channels: Width = 3,
        num_classes: Width = 1000,
        dropout: Annotated[float, Range(0, below=1)] = 0.2,
        pretrained: str | None = None,
    ) -> None:
        channels = divisible(16 * width)
        self.conv_stem = nn.Conv2d(in_channels, channels, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        stages = []
        for rows in STAGES:
            blocks = []
            for kernel, base, step, squeeze in rows:
                out = divisible(base * width)
                blocks.append(DepthwiseSeparable(channels, out, kernel=kernel, stride=step, squeeze=squeeze))
                channels = out
            stages.append(nn.Sequential(*blocks))
        self.blocks = nn.Sequential(*stages)
        self.conv_head = nn.Conv2d(channels, 1280, 1)
        self.dropout = nn.Dropout(dropout)
        self.classifier = nn.Linear(1280, num_classes)
        initialise(self)
        take_pretrained(self, pretrained)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> logits [N, num_classes]."""
        y = conv_norm(x, self.conv_stem, self.bn1, "hardswish")
        for stage in self.blocks:
            for block in stage:  # type: ignore[attr-defined]
                y = block.raw(y)
        pooled = pdl.global_avg_pool(finish(y), keepdims=True)
        last = pdl.hardswish(self.conv_head(pooled))
        return self.classifier(self.dropout(pdl.flatten(last, start=1)))  # type: ignore[no-any-return]

    def maps(self, x: pdl.Tensor) -> list[pdl.Tensor]:
        """x [N, H, W, C] -> what each stage hands on."""
        y: pdl.Tensor | Raw = conv_norm(x, self.conv_stem, self.bn1, "hardswish")
        found: list[pdl.Tensor] = []
        for stage in self.blocks:
            for block in stage:  # type: ignore[attr-defined]
                y = block.raw(y)
            found.append(finish(cast(Raw, y)))
            y = found[-1]
        return found


TASK = "classification"
WIDTHS = (0.25, 0.35, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5)
VARIANTS: dict[str, dict[str, Any]] = {
    f"lcnet_{round(100 * width):03}": {"_target_": "pdl_cv.PPLCNet", "width": width} for width in WIDTHS
}


def remap(model: PPLCNet, state: Mapping[str, Any]) -> dict[str, Any]:
    """A timm state dict (arrays by name) in pdl's names and layouts."""
    names = {".se.conv_reduce.": ".se.fc1.", ".se.conv_expand.": ".se.fc2."}
    renamed = {}
    for name, value in state.items():
        for theirs, ours in names.items():
            name = name.replace(theirs, ours)
        renamed[name] = value
    return nn.from_torch(model, renamed)
