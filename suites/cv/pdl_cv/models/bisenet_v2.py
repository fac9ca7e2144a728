"""BiSeNetV2: Yu et al., BiSeNet V2: bilateral network with guided aggregation for real-time semantic segmentation, IJCV
2021 (arXiv 2004.02147).

A wide and shallow path that keeps details at 1/8 of the resolution, a narrow and deep one that sees the whole, and
each weighing the other where they are joined.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import pdl
from pdl import nn
from pdl.errors import ShapeError
from pdl.hints import Range
from pdl.nn.blocks import ConvNorm, initialise
from pdl_cv.models.blocks import Auxiliary, PixelHead, take_pretrained

Width = Annotated[int, Range(1)]
STRIDE = 32
DETAIL = 128  # channels where the paths are joined
EXPANSION = 6
HEAD = 1024  # channels of the main head
#: channels, and strides of the blocks, of the semantic path behind its stem; table 1
SEMANTIC = ((32, (2, 1)), (64, (2, 1)), (128, (2, 1, 1, 1)))


class Stem(nn.Module):
    """1/4 of the resolution by convolution and by pooling, joined: figure 4 (a)."""

    def __init__(self, in_channels: int, channels: int) -> None:
        self.first = ConvNorm(in_channels, channels, 3, stride=2)
        half = channels // 2
        self.branch = nn.Sequential(ConvNorm(channels, half, 1), ConvNorm(half, channels, 3, stride=2))
        self.out = ConvNorm(2 * channels, channels, 3)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, in_channels] -> [N, H / 4, W / 4, channels]."""
        y = self.first(x)
        return self.out(pdl.concat([self.branch(y), pdl.max_pool(y, 3, stride=2, padding=1)], axis=-1))  # type: ignore[no-any-return]


class Gather(nn.Module):
    """Gather and expand: 3 x 3, depthwise of six times the channels (two of them at stride 2), and 1 x 1, plus x:
    figure 5."""

    def __init__(self, in_channels: int, channels: int, stride: int) -> None:
        wide = EXPANSION * in_channels
        first = ConvNorm(in_channels, in_channels, 3)
        if stride == 1:
            deep = [ConvNorm(in_channels, wide, 3, groups=in_channels)]
            self.shortcut: nn.Module = nn.Identity()
        else:
            deep = [
                ConvNorm(in_channels, wide, 3, stride=2, groups=in_channels, activation=None),
                ConvNorm(wide, wide, 3, groups=wide),
            ]
            self.shortcut = nn.Sequential(
                ConvNorm(in_channels, in_channels, 3, stride=2, groups=in_channels, activation=None),
                ConvNorm(in_channels, channels, 1, activation=None),
            )
        self.layers = nn.Sequential(first, *deep, ConvNorm(wide, channels, 1, activation=None))

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, in_channels] -> [N, H / stride, W / stride, channels]."""
        return pdl.relu(self.layers(x) + self.shortcut(x))


class Context(nn.Module):
    """x plus its mean over the image, and a 3 x 3 convolution: figure 4 (b)."""

    def __init__(self, channels: int) -> None:
        self.norm, self.conv = nn.BatchNorm2d(channels), ConvNorm(channels, channels, 1)
        self.out = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, channels] -> the same shape."""
        mean = self.conv(self.norm(pdl.global_avg_pool(x, keepdims=True)))
        return self.out(x + mean)  # type: ignore[no-any-return]


class Aggregation(nn.Module):
    """Both paths joined: each weighs the other, at its own resolution: figure 6."""

    def __init__(self, channels: int) -> None:
        self.detail_keep, self.semantic_keep = (
            nn.Sequential(
                ConvNorm(channels, channels, 3, groups=channels, activation=None),
                nn.Conv2d(channels, channels, 1, bias=False),
            )
            for _ in range(2)
        )
        self.detail_down = ConvNorm(channels, channels, 3, stride=2, activation=None)
        self.semantic_up = ConvNorm(channels, channels, 3, activation=None)
        self.out = ConvNorm(channels, channels, 3, activation=None)

    def forward(self, detail: pdl.Tensor, semantic: pdl.Tensor) -> pdl.Tensor:
        """detail [N, H, W, C], semantic [N, H / 4, W / 4, C] -> [N, H, W, C]."""
        size = detail.shape[1:3]
        down = pdl.avg_pool(self.detail_down(detail), 3, stride=2, padding=1)
        up = pdl.resize(self.semantic_up(semantic), size, mode="bilinear")
        fine = self.detail_keep(detail) * pdl.sigmoid(up)
        coarse = down * pdl.sigmoid(self.semantic_keep(semantic))
        return self.out(fine + pdl.resize(coarse, size, mode="bilinear"))  # type: ignore[no-any-return]


class BiSeNetV2(nn.Module):
    """Images [N, H, W, 3] -> logits [N, H / 8, W / 8, num_classes]; H and W are multiples of 32. In training the maps
    of the semantic path have heads of their own (`Auxiliary`), the "boosters".

    head_channels  of the main head; fewer make it faster
    pretrained     a name of the hub or a file, with weights of the whole net
    """

    head: ClassVar[str] = "main.logits"

    def __init__(
        self,
        *,
        head_channels: Width = HEAD,
        in_channels: Width = 3,
        num_classes: Width = 19,
        pretrained: str | None = None,
    ) -> None:
        self.detail = nn.Sequential(
            ConvNorm(in_channels, 64, 3, stride=2), ConvNorm(64, 64, 3),
            ConvNorm(64, 64, 3, stride=2), ConvNorm(64, 64, 3), ConvNorm(64, 64, 3),
            ConvNorm(64, DETAIL, 3, stride=2), ConvNorm(DETAIL, DETAIL, 3), ConvNorm(DETAIL, DETAIL, 3),
        )  # fmt: skip
        self.stem = Stem(in_channels, 16)
        stages, before = [], 16
        for channels, strides in SEMANTIC:
            made = []
            for stride in strides:
                made.append(Gather(before, channels, stride))
                before = channels
            stages.append(nn.Sequential(*made))
        self.semantic, self.context = nn.ModuleList(stages), Context(before)
        self.join = Aggregation(DETAIL)
        self.main = PixelHead(DETAIL, head_channels, num_classes)
        widths = (16, *(channels for channels, _ in SEMANTIC))
        self.boosters = nn.ModuleList([PixelHead(width, 128, num_classes) for width in widths])
        initialise(self)
        take_pretrained(self, pretrained)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor | Auxiliary:
        """x [N, H, W, 3] -> logits [N, H / 8, W / 8, num_classes], or in training `Auxiliary`."""
        if x.ndim != 4 or x.shape[1] % STRIDE or x.shape[2] % STRIDE:
            raise ShapeError(f"BiSeNetV2: x {x.shape} must be [N, H, W, C] with H and W multiples of {STRIDE}")
        maps = [self.stem(x)]
        for stage in self.semantic:
            maps.append(stage(maps[-1]))
        logits = self.main(self.join(self.detail(x), self.context(maps[-1])))
        if not self.training:
            return logits  # type: ignore[no-any-return]
        return Auxiliary(logits, tuple(head(y) for head, y in zip(self.boosters, maps, strict=True)), 1.0)


TASK = "segmentation"
VARIANTS: dict[str, dict[str, Any]] = {"bisenet_v2": {"_target_": "pdl_cv.BiSeNetV2"}}
