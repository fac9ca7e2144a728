"""EAST: X. Zhou et al., EAST: An Efficient and Accurate Scene Text Detector, CVPR 2017 (arXiv 1704.03155), with
rectangles at any angle (RBOX), and with the backbones of DB."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

import pdl
from pdl import nn
from pdl.hints import Range
from pdl.nn.blocks import Chain, ConvNorm, divisible, initialise
from pdl_ocr.data.maps import CELL, box_maps
from pdl_ocr.models.db import BACKBONES, Backbone, Channels, Stages
from pdl_ocr.models.detector import Coding, TextDetector, balanced, dice
from pdl_ocr.steps.east_boxes import EastBoxes

ANGLE = 20.0  # weight of the loss of angles; the paper has 10
FARTHEST = 8.0  # log of the largest distance, in cells


class Boxes(NamedTuple):
    """Of each cell [N, H / 4, W / 4, ...]: the logit of being inside of a shrunk line [1], the distances in pixels to
    the upper, right, lower and left side of the line [4], and its angle in radians [1]."""

    inside: pdl.Tensor
    sides: pdl.Tensor
    angle: pdl.Tensor


class EastCoding(Coding):
    """Shrunk lines, and in them the rectangle of each (X. Zhou et al., CVPR 2017, arXiv 1704.03155, section 3).

    The loss is BCE(inside) + Dice(inside), as in `DbCoding`, and the means over cells in lines of -log IoU of the
    rectangles as if they had one angle and of 20 (1 - cos(difference of angles)).
    """

    step = EastBoxes
    cell, channels, told = CELL, 6, "for each cell of 4 x 4 pixels a probability, four distances and an angle"

    def targets(
        self, polygons: list[np.ndarray], ignored: np.ndarray, size: tuple[int, int], ratio: float
    ) -> np.ndarray:
        return box_maps(polygons, ignored, size)

    def losses(self, maps: Boxes, wanted: pdl.Tensor) -> dict[str, pdl.Tensor]:
        inside, taught, sides, angle, near = (wanted[..., a:b] for a, b in ((0, 1), (1, 2), (2, 6), (6, 7), (7, 8)))
        cells = near.sum() + 1.0
        overlap = pdl.minimum(maps.sides, sides)
        both, ours, theirs = area(overlap), area(maps.sides), area(sides)
        iou = (both + 1.0) / (ours + theirs - both + 1.0)
        return {
            "inside": balanced(maps.inside, inside, taught) + dice(pdl.sigmoid(maps.inside), inside, taught),
            "box": -(pdl.log(iou) * near).sum() / cells,
            "angle": ANGLE * ((1.0 - pdl.cos(maps.angle - angle)) * near).sum() / cells,
        }

    def answer(self, maps: Boxes) -> pdl.Tensor:
        return pdl.concat([pdl.sigmoid(maps.inside), maps.sides, maps.angle], axis=3)

    def arguments(self, settings: Mapping[str, float]) -> dict[str, Any]:
        return {"threshold": settings["threshold"], "score": settings["score"], "stride": self.cell}


def area(sides: pdl.Tensor) -> pdl.Tensor:
    """Distances [..., 4] to the upper, right, lower and left side of a rectangle -> its area [..., 1]."""
    return (sides[..., 0:1] + sides[..., 2:3]) * (sides[..., 1:2] + sides[..., 3:4])


class EAST(TextDetector):
    """Images [N, H, W, in_channels], H and W multiples of 32 -> [N, H / 4, W / 4, 6]: of each cell of 4 x 4 pixels the
    probability of being inside of a shrunk line, the distances in pixels from its middle to the upper, right, lower and
    left side of the line, 4 exp(y), and the angle of these, from -pi / 4 to pi / 4, clockwise on a screen.

    backbone    as of `DB`; the paper has PVANet and VGG-16
    width       multiplies the channels of the backbone
    channels    of the merging branch at stride 16; half as many at 8, a quarter at 4 (the paper: 128)
    pretrained  a run, a file or a name of the hub
    """

    head: ClassVar[tuple[str, ...]] = ("inside", "sides", "angle")
    coding = EastCoding()

    def __init__(
        self,
        backbone: Backbone = "mobilenet_v3",
        *,
        width: Annotated[float, Range(above=0)] = 0.5,
        channels: Channels = 128,
        in_channels: Channels = 3,
        pretrained: str | None = None,
    ) -> None:
        layers, ends = BACKBONES[backbone](in_channels, width)
        self.stages = Stages(layers)
        merging, before = list[nn.Module](), ends[-1]
        for number, end in enumerate(reversed(ends[:-1])):
            out = divisible(channels / 2**number)
            merging.append(Chain(ConvNorm(before + end, out, 1), ConvNorm(out, out, 3)))
            before = out
        self.merging = nn.ModuleList(merging)
        self.last = ConvNorm(before, before, 3)
        self.inside, self.sides, self.angle = (nn.Conv2d(before, count, 1) for count in (1, 4, 1))
        initialise(self)
        if pretrained is not None:
            from pdl.hub import load_pretrained

            load_pretrained(self, pretrained)

    def features(self, x: pdl.Tensor) -> pdl.Tensor:
        *finer, y = self.stages(x)
        for merge, each in zip(self.merging, reversed(finer), strict=True):
            y = merge(pdl.concat([pdl.resize(y, scale=2, mode="bilinear"), each], axis=3))
        return self.last(y)  # type: ignore[no-any-return]

    def maps(self, x: pdl.Tensor) -> Boxes:
        """x [N, H, W, C] -> what each cell tells."""
        self.check(x)
        y = self.features(x)
        sides = CELL * pdl.exp(pdl.clip(self.sides(y), -FARTHEST, FARTHEST))
        return Boxes(self.inside(y), sides, np.pi / 4 * pdl.tanh(self.angle(y)))

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> [N, H / 4, W / 4, 6]."""
        return self.coding.answer(self.maps(x))


TASK = "text_detection"
VARIANTS = {
    "east_mobilenet_v3": {"_target_": "pdl_ocr.EAST"},
    "east_pplcnet_v3": {"_target_": "pdl_ocr.EAST", "backbone": "pplcnet_v3", "width": 0.75},
    "east_resnet18_vd": {"_target_": "pdl_ocr.EAST", "backbone": "resnet18_vd", "width": 1.0},
}
