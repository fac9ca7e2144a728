"""PicoDet: Yu et al., PP-PicoDet: a better real-time object detector on mobile devices, 2021 (arXiv 2111.00902), in the
authors' second form (PaddleDetection 2.4 and later, the `*_lcnet` checkpoints): PP-LCNet as backbone, a task-aligned
head, and task-aligned assignment (Feng et al., arXiv 2108.07755). Names of neck and head are PaddleDetection's.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, cast

import pdl
from pdl import nn
from pdl.hints import Range
from pdl.nn.blocks import ConvNorm, NamedConvNorm, chain
from pdl.nn.fused import Raw, conv_norm, finish
from pdl_cv.models.blocks import from_paddle, substituted, take_pretrained
from pdl_cv.models.detector import Backbone, Selection
from pdl_cv.models.distances import DistanceDetector, Distances, Predictions
from pdl_cv.models.points import flat, points_of, prior_bias
from pdl_cv.models.pp_lcnet import PPLCNet

Width = Annotated[int, Range(1)]
Size = Literal["xs", "s", "m", "l"]

#: width of the backbone, channels of neck and head, and layers of the head
SIZES: dict[str, tuple[float, int, int]] = {
    "xs": (0.35, 96, 2), "s": (0.75, 96, 2), "m": (1.5, 128, 4), "l": (2.0, 160, 4)
}  # fmt: skip
STRIDES = (8, 16, 32, 64)
#: distances are distributions over 0..7 strides
DISTANCES = Distances(bins=8, margin=0.1)


class Separable(nn.Module):
    """Depthwise 5 x 5 and 1 x 1, each with norm and hard swish. Where `channels` is 1, the first is an ordinary
    convolution to one channel, and the last has no activation.
    """

    def __init__(self, in_channels: int, channels: int, *, stride: int = 1) -> None:
        sizes: dict[str, Any] = {"stride": stride, "padding": 2, "groups": channels, "bias": False}
        self.dwconv, self.bn1 = nn.Conv2d(in_channels, channels, 5, **sizes), nn.BatchNorm2d(channels)
        self.pwconv, self.bn2 = nn.Conv2d(channels, channels, 1, bias=False), nn.BatchNorm2d(channels)

    def raw(self, x: pdl.Tensor | Raw) -> Raw:
        """x [N, H, W, C] -> [N, H / stride, W / stride, channels], norm and activation left to the next layer."""
        y = conv_norm(x, self.dwconv, self.bn1, "hardswish")
        return conv_norm(y, self.pwconv, self.bn2, None if self.pwconv.out_channels == 1 else "hardswish")

    def forward(self, x: pdl.Tensor | Raw) -> pdl.Tensor:
        """x [N, H, W, C] -> [N, H / stride, W / stride, channels]."""
        return finish(self.raw(x))


class LCBlock(nn.Module):
    """PP-LCNet's block with a depthwise window of 5 x 5."""

    def __init__(self, in_channels: int, channels: int) -> None:
        sizes: dict[str, Any] = {"padding": 2, "groups": in_channels}
        self.dw_conv = NamedConvNorm(in_channels, in_channels, 5, activation="hardswish", **sizes)
        self.pw_conv = NamedConvNorm(in_channels, channels, 1, activation="hardswish")

    def raw(self, x: pdl.Tensor | Raw) -> Raw:
        """x [N, H, W, C] -> [N, H, W, channels], norm and activation left to the next layer."""
        return self.pw_conv.raw(self.dw_conv.raw(x))

    def forward(self, x: pdl.Tensor | Raw) -> pdl.Tensor:
        """x [N, H, W, C] -> [N, H, W, channels]."""
        return finish(self.raw(x))


class LCPAN(nn.Module):
    """Maps of strides 8, 16 and 32 -> maps of `channels` at strides 8, 16, 32 and 64, down and up again."""

    def __init__(self, in_channels: tuple[int, ...], channels: int) -> None:
        self.conv_t = nn.ModuleList(NamedConvNorm(c, channels, 1, activation="hardswish") for c in in_channels)
        self.first_top_conv = Separable(channels, channels, stride=2)
        self.second_top_conv = Separable(channels, channels, stride=2)
        self.top_down_blocks = nn.ModuleList(self._blocks(channels) for _ in range(2))
        self.downsamples = nn.ModuleList(Separable(channels, channels, stride=2) for _ in range(2))
        self.bottom_up_blocks = nn.ModuleList(self._blocks(channels) for _ in range(2))

    @staticmethod
    def _blocks(channels: int) -> nn.Sequential:
        return nn.Sequential(LCBlock(2 * channels, 2 * channels), LCBlock(2 * channels, channels))

    def forward(self, maps: list[pdl.Tensor]) -> list[pdl.Tensor]:
        """Maps of strides 8, 16 and 32 -> maps of strides 8, 16, 32 and 64."""
        c3, c4, c5 = (layer(x) for layer, x in zip(self.conv_t, maps, strict=True))
        p4 = self._join(self.top_down_blocks[0], pdl.upsample_nearest(c5, 2), c4)
        p3 = self._join(self.top_down_blocks[1], pdl.upsample_nearest(p4, 2), c3)
        n4 = self._join(self.bottom_up_blocks[0], self.downsamples[0](p3), p4)
        n5 = self._join(self.bottom_up_blocks[1], self.downsamples[1](n4), c5)
        return [p3, n4, n5, self.first_top_conv(c5) + self.second_top_conv(n5)]

    @staticmethod
    def _join(blocks: nn.Module, a: pdl.Tensor, b: pdl.Tensor) -> pdl.Tensor:
        return chain(cast(nn.Sequential, blocks), pdl.concat([a, b], axis=3))


class Gate(nn.Module):
    """Channels scaled by what their means over space say, then 1 x 1 with norm and hard swish."""

    def __init__(self, channels: int) -> None:
        self.fc = nn.Conv2d(channels, channels, 1)
        self.conv = ConvNorm(channels, channels, 1, activation=nn.Hardswish)
        nn.init.normal_(self.fc.weight, std=0.001)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> the same shape."""
        return self.conv(x * pdl.sigmoid(self.fc(pdl.global_avg_pool(x, keepdims=True))))  # type: ignore[no-any-return]


class Level(nn.Module):
    """The head of one map: logits of classes and of distances, and of how well both go together."""

    def __init__(self, channels: int, count: int, num_classes: int) -> None:
        layers = []
        for _ in range(count):
            layers.append(ConvNorm(channels, channels, 5, groups=channels, activation=nn.Hardswish))
            layers.append(ConvNorm(channels, channels, 1, activation=nn.Hardswish))
        self.convs, self.se = nn.Sequential(*layers), Gate(channels)
        self.cls, self.reg = nn.Conv2d(channels, num_classes, 1), nn.Conv2d(channels, 4 * DISTANCES.bins, 1)
        self.align = Separable(channels, 1)
        for last, bias in ((self.cls, prior_bias()), (self.reg, 0.0)):
            nn.init.normal_(last.weight, std=0.01)
            nn.init.constant_(cast(pdl.Tensor, last.bias), bias)

    def forward(self, x: pdl.Tensor) -> tuple[pdl.Tensor, pdl.Tensor, pdl.Tensor]:
        """x [N, H, W, C] -> logits of classes, of agreement [N, H, W, 1] and of distances."""
        y = chain(self.convs, x)
        gated = self.se(y)
        return self.cls(gated), self.align(y), self.reg(gated)


class PicoDet(DistanceDetector):
    """Images [N, H, W, 3] -> detections.

    size        xs, s, m or l
    backbone    a net of pdl_cv's within `Backbone`, with maps of strides 8, 16 and 32; PP-LCNet where there is none
    pretrained  a name of the hub or a file
    """

    head: ClassVar[tuple[str, ...]] = tuple(f"levels.{level}.cls" for level in range(len(STRIDES)))
    selection = Selection(iou=0.6, score=0.025)
    distances = DISTANCES

    def __init__(
        self,
        size: Size = "s",
        *,
        num_classes: Width = 80,
        backbone: Backbone | None = None,
        pretrained: str | None = None,
    ) -> None:
        width, channels, count = SIZES[size]
        self.num_classes = num_classes
        self.backbone = backbone or Backbone(PPLCNet(width=width))
        self.neck = LCPAN(self.backbone.channels, channels)
        self.levels = nn.ModuleList(Level(channels, count, num_classes) for _ in STRIDES)
        take_pretrained(self, pretrained)

    def predictions(self, images: pdl.Tensor) -> Predictions:
        """Images [N, H, W, 3] -> scores, the geometric mean of both probabilities, and distances."""
        found = [level(x) for level, x in zip(self.levels, self.neck(self.backbone(images)), strict=True)]
        classes, agreement, distances = zip(*found, strict=True)
        scores = pdl.sqrt(pdl.sigmoid(flat(classes)) * pdl.sigmoid(flat(agreement)) + 1e-9)
        return Predictions(scores, flat(distances), points_of(classes, STRIDES), partial(varifocal, scores))


def varifocal(p: pdl.Tensor, wanted: pdl.Tensor) -> pdl.Tensor:
    """Varifocal loss of probabilities (Zhang et al., arXiv 2008.13367): cross-entropy, weighted by `wanted` where that
    is above 0 and by 3/4 p^2 elsewhere. `pdl.varifocal_loss` takes logits, which a geometric mean has not.
    """
    p = pdl.clip(p, 1e-7, 1 - 1e-6)
    weight = pdl.where(pdl.greater(wanted, 0), wanted, 0.75 * pdl.square(p))
    return pdl.binary_cross_entropy(p, wanted, weight=weight, reduction="none")


TASK = "detection"
VARIANTS: dict[str, dict[str, Any]] = {
    f"picodet_{size}": {"_target_": "pdl_cv.PicoDet", "size": size} for size in SIZES
}

#: PaddleDetection's names (patterns) and pdl's, applied in turn
_NAMES = [
    (r"^backbone\.conv1\.conv\.", "backbone.net.conv_stem."), (r"^backbone\.conv1\.bn\.", "backbone.net.bn1."),
    (r"^backbone\.blocks5\.([2-5])\.", lambda block: f"backbone.net.blocks.4.{int(block[1]) - 2}."),
    (r"^backbone\.blocks([2-5])\.", lambda stage: f"backbone.net.blocks.{int(stage[1]) - 2}."),
    (r"^backbone\.blocks6\.", "backbone.net.blocks.5."),
    (r"^(backbone\..*)\.dw_conv\.conv\.", r"\1.conv_dw."), (r"^(backbone\..*)\.dw_conv\.bn\.", r"\1.bn1."),
    (r"^(backbone\..*)\.pw_conv\.conv\.", r"\1.conv_pw."), (r"^(backbone\..*)\.pw_conv\.bn\.", r"\1.bn2."),
    (r"^(backbone\..*)\.se\.conv([12])\.", r"\1.se.fc\2."),
    (r"^neck\.conv_t\.convs\.", "neck.conv_t."),
    (r"^head\.conv_feat\.cls_conv_dw(\d)\.(\d)\.", lambda at: f"levels.{at[1]}.convs.{2 * int(at[2])}."),
    (r"^head\.conv_feat\.cls_conv_pw(\d)\.(\d)\.", lambda at: f"levels.{at[1]}.convs.{2 * int(at[2]) + 1}."),
    (r"^head\.conv_feat\.se\.(\d)\.", r"levels.\1.se."),
    (r"^head\.head_(cls|reg)(\d)\.", r"levels.\2.\1."), (r"^head\.cls_align\.(\d)\.", r"levels.\1.align."),
    (r"^(levels\..*)\.conv\.(\w+)$", r"\1.0.\2"), (r"^(levels\..*)\.norm\.(\w+)$", r"\1.1.\2"),
]  # fmt: skip


def remap(model: PicoDet, state: Mapping[str, Any]) -> dict[str, Any]:
    """A state dict (arrays by name) of PaddleDetection in pdl's names and layouts."""
    kept = {name: value for name, value in from_paddle(state).items() if "distribution_project" not in name}
    return nn.from_torch(model, substituted(kept, _NAMES))
