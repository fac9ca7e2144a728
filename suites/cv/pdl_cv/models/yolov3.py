"""YOLOv3: Redmon & Farhadi, YOLOv3: an incremental improvement, 2018 (arXiv 1804.02767), on DarkNet-53, on nets of
pdl_cv, or tiny. Names of neck and head are PaddleDetection's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any, Literal, NamedTuple, cast

import numpy as np

import pdl
from pdl import nn
from pdl.dtype import Array
from pdl.hints import Range
from pdl_cv.models.blocks import from_paddle, substituted, take_pretrained
from pdl_cv.models.detector import Backbone, Detector, Selection, Targets
from pdl_cv.models.mobilenet_v1 import MobileNetV1
from pdl_cv.models.mobilenet_v3 import MobileNetV3
from pdl_cv.models.points import flat, points_of, prior_bias
from pdl_cv.ops import max_iou_assign

Width = Annotated[int, Range(1)]
Net = Literal["darknet53", "mobilenet_v1", "mobilenet_v3", "tiny"]

#: residual units of the five stages; table 1
UNITS = (1, 2, 8, 8, 4)
#: (width, height) of the anchors on maps of strides 32, 16 and 8, from k-means on COCO; section 2.3
ANCHORS = (((116, 90), (156, 198), (373, 326)), ((30, 61), (62, 45), (59, 119)), ((10, 13), (16, 30), (33, 23)))
#: those of the tiny net, on maps of strides 32 and 16
TINY_ANCHORS = (((81, 82), (135, 169), (344, 319)), ((10, 14), (23, 27), (37, 58)))
#: predictions that overlap an object by more, and are not to find it, are not taught that nothing is there
IGNORED = 0.7


class Unit(nn.Module):
    """Convolution without bias, batch norm and leaky rectifier."""

    def __init__(self, in_channels: int, channels: int, kernel: int = 1, *, stride: int = 1) -> None:
        self.conv = nn.Conv2d(in_channels, channels, kernel, stride=stride, padding=kernel // 2, bias=False)
        self.bn = nn.BatchNorm2d(channels)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> [N, H / stride, W / stride, channels]."""
        return pdl.leaky_relu(self.bn(self.conv(x)), negative_slope=0.1)


class Residual(nn.Module):
    """x plus 1 x 1 to half of the channels and 3 x 3 back."""

    def __init__(self, channels: int) -> None:
        self.conv1, self.conv2 = Unit(channels, channels // 2), Unit(channels // 2, channels, 3)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> the same shape."""
        return x + self.conv2(self.conv1(x))


class DarkNet53(nn.Module):
    """The paper's backbone: x [N, H, W, 3] -> maps of strides 8, 16 and 32."""

    strides, channels = (8, 16, 32), (256, 512, 1024)

    def __init__(self) -> None:
        self.conv0 = Unit(3, 32, 3)
        stages = []
        for stage, count in enumerate(UNITS):
            width = 64 * 2**stage
            stages.append(nn.Sequential(Unit(width // 2, width, 3, stride=2), *(Residual(width) for _ in range(count))))
        self.stages = nn.Sequential(*stages)

    def forward(self, x: pdl.Tensor) -> list[pdl.Tensor]:
        """x [N, H, W, 3] -> maps of strides 8, 16 and 32."""
        maps = [self.conv0(x)]
        for stage in cast(Any, self.stages):
            maps.append(stage(maps[-1]))
        return maps[3:]


class TinyNet(nn.Module):
    """Seven convolutions with maxima between: x [N, H, W, 3] -> maps of strides 16 and 32."""

    strides, channels = (16, 32), (256, 1024)

    def __init__(self) -> None:
        widths = (3, 16, 32, 64, 128, 256, 512, 1024)
        self.convs = nn.ModuleList(Unit(a, b, 3) for a, b in pairwise(widths))

    def forward(self, x: pdl.Tensor) -> list[pdl.Tensor]:
        """x [N, H, W, 3] -> maps of strides 16 and 32."""
        *layers, fine, coarse, last = self.convs
        for layer in layers:
            x = pdl.max_pool(layer(x), 2)
        middle = fine(x)
        high = coarse(pdl.max_pool(middle, 2))
        return [middle, last(pdl.max_pool(high, 2, stride=1, padding=((0, 1), (0, 1))))]


class Block(nn.Module):
    """Five convolutions, 1 x 1 and 3 x 3 in turn, and a sixth before the prediction."""

    def __init__(self, in_channels: int, channels: int) -> None:
        double = 2 * channels
        layers = {
            "conv0": Unit(in_channels, channels),
            "conv1": Unit(channels, double, 3),
            "conv2": Unit(double, channels),
            "conv3": Unit(channels, double, 3),
            "route": Unit(double, channels),
        }
        self.conv_module, self.tip = nn.Sequential(cast(Any, layers)), Unit(channels, double, 3)

    def forward(self, x: pdl.Tensor) -> tuple[pdl.Tensor, pdl.Tensor]:
        """x [N, H, W, C] -> what goes up [N, H, W, channels], what is predicted from [N, H, W, 2 channels]."""
        route = self.conv_module(x)
        return route, self.tip(route)


class TinyBlock(nn.Module):
    """A convolution before the prediction; on the coarsest map 1 x 1 before it, whose output goes up."""

    def __init__(self, in_channels: int, channels: int, *, coarsest: bool) -> None:
        self.route = Unit(in_channels, channels) if coarsest else None
        self.tip = Unit(channels if coarsest else in_channels, 2 * channels, 3)

    def forward(self, x: pdl.Tensor) -> tuple[pdl.Tensor, pdl.Tensor]:
        """x [N, H, W, C] -> what goes up, what is predicted from."""
        route = x if self.route is None else self.route(x)
        return route, self.tip(route)


class YOLOv3FPN(nn.Module):
    """Maps of a backbone, the coarsest last -> maps to predict from, the coarsest first, each joined by the one
    above.
    """

    def __init__(self, in_channels: tuple[int, ...], *, tiny: bool, width: float = 1.0) -> None:
        most = 8 * max(1, round((256 if tiny else 512) * width / 8))
        widths = [most // 2**level for level in range(len(in_channels))]
        joined = [channels + more // 2 for channels, more in zip(reversed(in_channels), [0, *widths], strict=False)]
        self.yolo_block = nn.ModuleList(
            TinyBlock(channels, width, coarsest=width == widths[0]) if tiny else Block(channels, width)
            for channels, width in zip(joined, widths, strict=True)
        )
        self.yolo_transition = nn.ModuleList(Unit(width, width // 2) for width in widths[:-1])
        self.channels = tuple(2 * width for width in widths)

    def forward(self, maps: list[pdl.Tensor]) -> list[pdl.Tensor]:
        """Maps, the coarsest last -> as many, the coarsest first."""
        *finer, x = maps
        route, tip = self.yolo_block[0](x)
        found = [tip]
        for level, x in enumerate(reversed(finer), start=1):
            up = pdl.upsample_nearest(self.yolo_transition[level - 1](route), 2)
            route, tip = self.yolo_block[level](pdl.concat([up, x], axis=3))
            found.append(tip)
        return found


class Anchors(NamedTuple):
    """The predictions of all maps, cell by cell, anchor by anchor; and the anchors' shapes, S of them, map by map.

    corner  float32 [A, 2]: of the cell, in strides
    size    float32 [A, 2]: (width, height) of the anchor in pixels
    stride  float32 [A, 1]
    shapes  float32 [S, 2]: (width, height) in pixels
    steps   float32 [S, 1]: stride
    cells   float32 [S, 2]: columns and rows of the map
    first   float32 [S]: number of the first prediction of this shape
    """

    corner: Array
    size: Array
    stride: Array
    shapes: Array
    steps: Array
    cells: Array
    first: Array


class Wanted(NamedTuple):
    """What the predictions that objects train are to say; rows as in `Targets`.

    which    int64 [N, M]: number of the prediction
    real     float32 [N, M, 1]: 0 in rows that are padding, else 1
    place    float32 [N, M, 2]: where in the cell the middle is, 0..1
    size     float32 [N, M, 2]: logarithms of sizes over the anchor's
    one_hot  float32 [N, M, C]
    """

    which: pdl.Tensor
    real: pdl.Tensor
    place: pdl.Tensor
    size: pdl.Tensor
    one_hot: pdl.Tensor


class YOLOv3(Detector):
    """Images [N, H, W, 3] -> detections. Each object trains the anchor of its shape, in the cell that its middle is in.

    net         darknet53, mobilenet_v1 or mobilenet_v3 (the large), or tiny
    backbone    a net of pdl_cv's within `Backbone`, with maps of as many strides, in its place
    width       of the neck: its channels over the paper's
    pretrained  a name of the hub or a file
    """

    selection = Selection(iou=0.45, score=0.01)

    def __init__(
        self,
        net: Net = "darknet53",
        *,
        num_classes: Width = 80,
        backbone: Backbone | None = None,
        width: Annotated[float, Range(0.02, 4)] = 1.0,
        pretrained: str | None = None,
    ) -> None:
        self.num_classes = num_classes
        self.backbone = backbone or _backbone(net)
        self.anchors = TINY_ANCHORS if net == "tiny" else ANCHORS
        self.neck = YOLOv3FPN(self.backbone.channels, tiny=net == "tiny", width=width)
        self.yolo_output = nn.ModuleList(
            _last(channels, len(anchors), num_classes)
            for channels, anchors in zip(self.neck.channels, self.anchors, strict=True)
        )
        self.head = tuple(f"yolo_output.{level}" for level in range(len(self.anchors)))
        take_pretrained(self, pretrained)

    def predictions(self, images: pdl.Tensor) -> tuple[pdl.Tensor, Anchors]:
        """Images [N, H, W, 3] -> [N, A, 4 + 1 + C]: place, size, logits of "there is an object" and of classes."""
        maps = [last(x) for last, x in zip(self.yolo_output, self.neck(self.backbone(images)), strict=True)]
        found, count = flat(maps), len(self.anchors[0])
        n, cells, channels = found.shape
        return pdl.reshape(found, (n, cells * count, channels // count)), self._anchors(maps)

    def _anchors(self, maps: list[pdl.Tensor]) -> Anchors:
        strides, count = tuple(reversed(self.backbone.strides)), len(self.anchors[0])
        points = points_of(maps, strides)
        first = count * np.cumsum([0, *points.counts[:-1]])[:, None] + np.arange(count)
        sizes = [
            np.tile(np.array(a, np.float32), (cells, 1)) for a, cells in zip(self.anchors, points.counts, strict=True)
        ]
        cells = np.array([(int(each.shape[2]), int(each.shape[1])) for each in maps], np.float32)
        return Anchors(
            np.repeat(points.at / points.stride[:, None] - 0.5, count, axis=0),
            np.concatenate(sizes),
            np.repeat(points.stride, count)[:, None],
            np.array(self.anchors, np.float32).reshape(-1, 2),
            np.repeat(np.array(strides, np.float32), count)[:, None],
            np.repeat(cells, count, axis=0),
            first.reshape(-1).astype(np.float32),
        )

    @staticmethod
    def boxes(found: pdl.Tensor, anchors: Anchors) -> pdl.Tensor:
        """Boxes [N, A, 4] in pixels; section 2.1."""
        centre = (pdl.sigmoid(found[..., :2]) + anchors.corner) * anchors.stride
        half = pdl.exp(found[..., 2:4]) * (anchors.size / 2)
        return pdl.concat([centre - half, centre + half], axis=2)

    def decoded(self, found: tuple[pdl.Tensor, Anchors], size: Sequence[int]) -> tuple[pdl.Tensor, pdl.Tensor]:
        """Boxes [N, A, 4] and scores [N, A, C]: probability of an object times that of the class."""
        values, anchors = found
        return self.boxes(values, anchors), pdl.sigmoid(values[..., 4:5]) * pdl.sigmoid(values[..., 5:])

    def losses(self, found: tuple[pdl.Tensor, Anchors], targets: Targets, size: Sequence[int]) -> dict[str, pdl.Tensor]:
        """place: binary cross-entropy of the offset in the cell; size: distance of logarithms; both are weighted by 2 -
        the object's share of the image. object and class: binary cross-entropy. Sums over an image, means over the
        batch.
        """
        values, anchors = found
        n, count, width = values.shape
        wanted = self.wanted(targets, anchors)
        near = max_iou_assign(
            self.boxes(values, anchors).detach(), targets.boxes, targets.labels,
            positive=IGNORED, negative=IGNORED, best=False,
        )  # fmt: skip
        taught = pdl.scatter_add(pdl.zeros((n, count)), wanted.which, wanted.real[..., 0])
        nothing = pdl.astype(pdl.logical_and(pdl.equal(taught, 0), pdl.less(near, 0)), values.dtype)
        rows = pdl.embedding(pdl.reshape(values, (n * count, width)), wanted.which + count * np.arange(n)[:, None])
        share = pdl.prod(targets.boxes[..., 2:] - targets.boxes[..., :2], axis=2, keepdims=True)
        weight = wanted.real * (2 - share / float(size[0] * size[1]))
        entropy = pdl.binary_cross_entropy_with_logits
        there = pdl.softplus(-rows[..., 4:5]) * wanted.real
        parts = {
            "place": entropy(rows[..., :2], wanted.place, weight=weight, reduction="sum"),
            "size": pdl.sum(pdl.abs(rows[..., 2:4] - wanted.size) * weight),
            "object": pdl.sum(pdl.softplus(values[..., 4]) * nothing) + pdl.sum(there),
            "class": entropy(rows[..., 5:], wanted.one_hot, weight=wanted.real, reduction="sum"),
        }
        return {name: part / n for name, part in parts.items()}

    def wanted(self, targets: Targets, anchors: Anchors) -> Wanted:
        """Which prediction each object trains, and what that is to say: of the cells that its middle is in the anchor
        whose shape has the largest IoU with the object's.
        """
        boxes = pdl.expand_dims(targets.boxes, axis=2)
        size, middle = boxes[..., 2:] - boxes[..., :2], (boxes[..., :2] + boxes[..., 2:]) * 0.5 / anchors.steps
        cell = pdl.clip(pdl.floor(middle), 0.0, anchors.cells - 1)
        common = pdl.prod(pdl.minimum(size, anchors.shapes), axis=3)
        iou = common / (pdl.prod(size, axis=3) + anchors.shapes.prod(axis=1) - common)
        best = pdl.one_hot(pdl.argmax(iou, axis=2), len(anchors.shapes), dtype=boxes.dtype)
        row = cell[..., 1] * anchors.cells[:, 0] + cell[..., 0]
        index = pdl.sum((anchors.first + len(self.anchors[0]) * row) * best, axis=2)
        best = pdl.expand_dims(best, axis=3)
        labels = pdl.expand_dims(targets.labels, axis=2)
        one_hot = pdl.equal(labels, np.arange(self.num_classes))
        return Wanted(
            pdl.astype(index, np.int64),
            pdl.astype(pdl.greater_equal(labels, 0), boxes.dtype),
            pdl.sum((middle - cell) * best, axis=2),
            pdl.sum(pdl.log(pdl.maximum(size, 1e-2) / anchors.shapes) * best, axis=2),
            pdl.astype(one_hot, boxes.dtype),
        )


def _backbone(net: Net) -> DarkNet53 | TinyNet | Backbone:
    if net == "darknet53":
        return DarkNet53()
    if net == "tiny":
        return TinyNet()
    return Backbone(MobileNetV1() if net == "mobilenet_v1" else MobileNetV3())


def _last(in_channels: int, anchors: int, num_classes: int) -> nn.Conv2d:
    """A last layer that finds objects as rarely as there are any until it is trained."""
    layer = nn.Conv2d(in_channels, anchors * (5 + num_classes), 1)
    bias = np.zeros((anchors, 5 + num_classes), np.float32)
    bias[:, 4] = prior_bias()
    layer.load_state_dict({"weight": layer.weight.data, "bias": bias.reshape(-1)})
    return layer


TASK = "detection"
VARIANTS: dict[str, dict[str, Any]] = {
    f"yolov3_{net}": {"_target_": "pdl_cv.YOLOv3", "net": net}
    for net in ("darknet53", "mobilenet_v1", "mobilenet_v3", "tiny")
}

#: PaddleDetection's names (patterns) and pdl's, applied in turn
_NAMES = [
    (r"\.batch_norm\.", ".bn."), (r"^yolo_head\.", ""),
    (r"^backbone\.downsample0\.conv_bn_layer\.", "backbone.stages.0.0."),
    (r"^backbone\.stage\.(\d)\.downsample\.conv_bn_layer\.", lambda at: f"backbone.stages.{int(at[1]) + 1}.0."),
    (r"^backbone\.stage\.(\d)\.basicblock0\.", r"backbone.stages.\1.1."),
    (r"^backbone\.stage\.(\d)\.stage\.\d\.(\d)\.", lambda at: f"backbone.stages.{at[1]}.{int(at[2]) + 1}."),
]  # fmt: skip


def remap(model: YOLOv3, state: Mapping[str, Any]) -> dict[str, Any]:
    """A state dict (arrays by name) of PaddleDetection's YOLOv3 on DarkNet-53 in pdl's names and layouts."""
    return nn.from_torch(model, substituted(from_paddle(state), _NAMES))
