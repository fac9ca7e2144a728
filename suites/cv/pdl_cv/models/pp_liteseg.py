"""PP-LiteSeg: Peng et al., PP-LiteSeg: a superior real-time semantic segmentation model, 2022 (arXiv 2204.02681).

A light backbone (STDC: Fan et al., Rethinking BiSeNet for real-time semantic segmentation, CVPR 2021, arXiv
2104.13188), context pooled from its last map, and a decoder that grows narrower upwards and weighs what it joins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

import pdl
from pdl import nn
from pdl.errors import ShapeError
from pdl.hints import Range
from pdl.nn.blocks import ConvNorm, initialise
from pdl_cv.models.blocks import Auxiliary, take_pretrained
from pdl_cv.models.detector import Backbone

Width = Annotated[int, Range(1)]
STRIDES = (8, 16, 32)
PARTS = 4  # convolutions of a module


class ShortTerm(nn.Module):
    """The short-term dense concatenate module: a chain of convolutions, each of half the channels of the one before,
    whose outputs are all kept; at stride 2 the first is pooled, and the second steps. Figure 3."""

    def __init__(self, in_channels: int, channels: int, stride: int) -> None:
        widths = [channels // 2, channels // 4, channels // 8, channels // 8]
        kernels = [1, 3, 3, 3]
        layers, before = [], in_channels
        for width, kernel in zip(widths, kernels, strict=True):
            layers.append(ConvNorm(before, width, kernel))
            before = width
        self.convs = nn.ModuleList(layers)
        self.step = (
            ConvNorm(widths[0], widths[0], 3, stride=2, groups=widths[0], activation=None) if stride == 2 else None
        )

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, in_channels] -> [N, H / stride, W / stride, channels]."""
        first, *others = self.convs
        y = first(x)
        kept = [y if self.step is None else pdl.avg_pool(y, 3, stride=2, padding=1)]
        y = y if self.step is None else self.step(y)
        for conv in others:
            y = conv(y)
            kept.append(y)
        return pdl.concat(kept, axis=-1)


class STDC(nn.Module):
    """x [N, H, W, in_channels] -> logits [N, num_classes]: the classification net, table 1.

    size  stdc1 (813 million multiply-adds at 224 x 224) or stdc2 (1446)
    """

    head: ClassVar[str] = "classifier"
    stem: ClassVar[str] = "first.0.0"
    last_conv: ClassVar[str] = "conv_last"

    def __init__(
        self,
        size: Literal["stdc1", "stdc2"] = "stdc1",
        *,
        base: Width = 64,
        in_channels: Width = 3,
        num_classes: Width = 1000,
        dropout: Annotated[float, Range(0, below=1)] = 0.2,
        pretrained: str | None = None,
    ) -> None:
        blocks = (2, 2, 2) if size == "stdc1" else (4, 5, 3)
        half = base // 2
        self.first = nn.Sequential(ConvNorm(in_channels, half, 3, stride=2), ConvNorm(half, base, 3, stride=2))
        stages, before = [], base
        for level, count in enumerate(blocks):
            channels = base << (level + 2)
            made = [ShortTerm(channels if i else before, channels, 1 if i else 2) for i in range(count)]
            stages.append(nn.Sequential(*made))
            before = channels
        self.stages = nn.ModuleList(stages)
        self.conv_last = ConvNorm(before, max(1024, before), 1)
        last = max(1024, before)
        self.classifier = nn.Sequential(
            nn.Linear(last, last, bias=False), nn.BatchNorm1d(last), nn.ReLU(), nn.Dropout(dropout),
            nn.Linear(last, num_classes, bias=False),
        )  # fmt: skip
        initialise(self)
        take_pretrained(self, pretrained)

    def maps(self, x: pdl.Tensor) -> list[pdl.Tensor]:
        """x [N, H, W, C] -> the maps of strides 4, 8, 16 and 32."""
        found = [self.first(x)]
        for stage in self.stages:
            found.append(stage(found[-1]))
        return found

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> logits [N, num_classes]."""
        return self.classifier(pdl.square(pdl.global_avg_pool(self.conv_last(self.maps(x)[-1]))))  # type: ignore[no-any-return]


class PyramidPooling(nn.Module):
    """Means over grids of 1, 2 and 4 cells a side, each through a 1 x 1 convolution, enlarged and summed (section
    3.3)."""

    def __init__(self, in_channels: int, channels: int, bins: Sequence[int] = (1, 2, 4)) -> None:
        self.bins = tuple(bins)
        self.stages = nn.ModuleList([ConvNorm(in_channels, channels, 1) for _ in bins])
        self.out = ConvNorm(channels, channels, 3)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, in_channels] -> [N, H, W, channels]."""
        size = x.shape[1:3]
        total: Any = None
        for cells, stage in zip(self.bins, self.stages, strict=True):
            y = pdl.resize(stage(pdl.adaptive_avg_pool(x, (cells, cells))), size, mode="bilinear")
            total = y if total is None else total + y
        return self.out(total)  # type: ignore[no-any-return]


class Fusion(nn.Module):
    """Two maps joined place by place by weights that their means and maxima over channels give (unified attention
    fusion, spatial: section 3.2)."""

    def __init__(self, low: int, high: int, channels: int) -> None:
        self.low = ConvNorm(low, high, 3)
        self.weight = nn.Sequential(ConvNorm(4, 2, 3), nn.Conv2d(2, 1, 3, padding=1, bias=False), nn.BatchNorm2d(1))
        self.out = ConvNorm(high, channels, 3)

    def forward(self, low: pdl.Tensor, high: pdl.Tensor) -> pdl.Tensor:
        """low [N, H, W, c] of the backbone, high [N, h, w, channels before] -> [N, H, W, channels]."""
        low = self.low(low)
        high = pdl.resize(high, low.shape[1:3], mode="bilinear")
        seen = [f(x, axis=-1, keepdims=True) for x in (low, high) for f in (pdl.mean, pdl.max)]
        share = pdl.sigmoid(self.weight(pdl.concat(seen, axis=-1)))
        return self.out(low * share + high * (1.0 - share))  # type: ignore[no-any-return]


class Head(nn.Module):
    """A 3 x 3 convolution and the logits."""

    def __init__(self, in_channels: int, channels: int, num_classes: int) -> None:
        self.conv, self.logits = ConvNorm(in_channels, channels, 3), nn.Conv2d(channels, num_classes, 1, bias=False)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, in_channels] -> [N, H, W, num_classes]."""
        return self.logits(self.conv(x))  # type: ignore[no-any-return]


class Plan(NamedTuple):
    """Channels of the decoder from 1/32 to 1/8, and of the heads; section 3.4."""

    decoder: tuple[int, int, int]
    heads: tuple[int, int, int]
    backbone: Literal["stdc1", "stdc2"]


PLANS = {
    "t": Plan((128, 64, 32), (32, 64, 64), "stdc1"),
    "b": Plan((128, 96, 64), (64, 64, 64), "stdc2"),
}


class PPLiteSeg(nn.Module):
    """Images [N, H, W, 3] -> logits [N, H / 8, W / 8, num_classes]; H and W are multiples of 32. In training those of
    1/16 and 1/32 are returned, too, and learned with them (`Auxiliary`).

    size        t (STDC1) or b (STDC2): section 3.4
    backbone    another classification net
    pretrained  a name of the hub or a file, with weights of the whole net
    """

    def __init__(
        self,
        size: Literal["t", "b"] = "t",
        *,
        backbone: nn.Module | None = None,
        num_classes: Width = 19,
        pretrained: str | None = None,
    ) -> None:
        plan = PLANS[size]
        self.backbone = Backbone(STDC(plan.backbone) if backbone is None else backbone, STRIDES)
        low, middle, high = self.backbone.channels
        c32, c16, c8 = plan.decoder
        self.context = PyramidPooling(high, c32)
        self.fuse16, self.fuse8 = Fusion(middle, c32, c16), Fusion(low, c16, c8)
        widths = zip((c8, c16, c32), plan.heads, strict=True)
        self.heads = nn.ModuleList([Head(width, inner, num_classes) for width, inner in widths])
        for module in (self.context, self.fuse16, self.fuse8, self.heads):
            initialise(module)
        take_pretrained(self, pretrained)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor | Auxiliary:
        """x [N, H, W, 3] -> logits [N, H / 8, W / 8, num_classes], or in training `Auxiliary`."""
        if x.ndim != 4 or x.shape[1] % STRIDES[-1] or x.shape[2] % STRIDES[-1]:
            raise ShapeError(f"PPLiteSeg: x {x.shape} must be [N, H, W, C] with H and W multiples of {STRIDES[-1]}")
        low, middle, high = self.backbone(x)
        y32 = self.context(high)
        y16 = self.fuse16(middle, y32)
        maps = (self.fuse8(low, y16), y16, y32)
        if not self.training:
            return next(iter(self.heads))(maps[0])  # type: ignore[no-any-return]
        first, *others = (head(y) for head, y in zip(self.heads, maps, strict=True))
        return Auxiliary(first, tuple(others), 1.0)


TASK = "segmentation"
VARIANTS: dict[str, dict[str, Any]] = {
    f"pp_liteseg_{size}": {"_target_": "pdl_cv.PPLiteSeg", "size": size} for size in PLANS
}
