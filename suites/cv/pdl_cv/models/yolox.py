"""YOLOX: Ge et al., YOLOX: exceeding YOLO series in 2021 (arXiv 2107.08430)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, cast

import numpy as np

import pdl
from pdl import nn
from pdl.dtype import Array
from pdl.hints import Range
from pdl.nn.blocks import NamedConvNorm, chain
from pdl.nn.fused import Raw, finish
from pdl_cv.models.blocks import maxima, substituted, take_pretrained
from pdl_cv.models.detector import Backbone, Detector, Selection, Targets
from pdl_cv.models.points import Points, flat, points_of, prior_bias
from pdl_cv.ops import class_targets, simota_assign, take_assigned

Width = Annotated[int, Range(1)]
Size = Literal["nano", "tiny", "s", "m", "l", "x"]

#: factors of depth and width, and whether windows of 3 x 3 are depthwise separable
SIZES: dict[str, tuple[float, float, bool]] = {
    "nano": (0.33, 0.25, True), "tiny": (0.33, 0.375, False), "s": (0.33, 0.5, False), "m": (0.67, 0.75, False),
    "l": (1.0, 1.0, False), "x": (1.33, 1.25, False),
}  # fmt: skip
STRIDES = (8, 16, 32)
#: weight of the box loss
BOX = 5.0


def conv(in_channels: int, channels: int, kernel: int = 1, *, stride: int = 1, groups: int = 1) -> NamedConvNorm:
    """Convolution, batch norm and SiLU. The authors' running statistics move by 0.03 a step, which suits trainings of
    100,000s of them.
    """
    return NamedConvNorm(
        in_channels,
        channels,
        kernel,
        stride=stride,
        padding=(kernel - 1) // 2,
        groups=groups,
        activation="silu",
        eps=1e-3,
    )


class SeparableConv(nn.Module):
    """Depthwise 3 x 3 and 1 x 1, each with norm and SiLU."""

    def __init__(self, in_channels: int, channels: int, *, stride: int = 1) -> None:
        self.dconv = conv(in_channels, in_channels, 3, stride=stride, groups=in_channels)
        self.pconv = conv(in_channels, channels)

    def raw(self, x: pdl.Tensor | Raw) -> Raw:
        """x [N, H, W, C] -> [N, H / stride, W / stride, channels], norm and activation left to the next layer."""
        return self.pconv.raw(self.dconv.raw(x))

    def forward(self, x: pdl.Tensor | Raw) -> pdl.Tensor:
        """x [N, H, W, C] -> [N, H / stride, W / stride, channels]."""
        return finish(self.raw(x))


def wide(in_channels: int, channels: int, separable: bool, *, stride: int = 1) -> SeparableConv | NamedConvNorm:
    """A window of 3 x 3, separable or not."""
    if separable:
        return SeparableConv(in_channels, channels, stride=stride)
    return conv(in_channels, channels, 3, stride=stride)


class Bottleneck(nn.Module):
    """1 x 1, then 3 x 3; plus x with `shortcut`."""

    def __init__(self, channels: int, *, shortcut: bool, separable: bool) -> None:
        self.conv1, self.conv2 = conv(channels, channels), wide(channels, channels, separable)
        self.shortcut = shortcut

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> the same shape."""
        y = chain([self.conv1, self.conv2], x)
        return x + y if self.shortcut else y


class CSPLayer(nn.Module):
    """Half of the channels go through bottlenecks, the other half pass by (Wang et al., arXiv 1911.11929)."""

    def __init__(
        self, in_channels: int, channels: int, count: int, *, shortcut: bool = True, separable: bool = False
    ) -> None:
        half = channels // 2
        self.conv1, self.conv2, self.conv3 = conv(in_channels, half), conv(in_channels, half), conv(2 * half, channels)
        self.m = nn.Sequential(*(Bottleneck(half, shortcut=shortcut, separable=separable) for _ in range(count)))

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> [N, H, W, channels]."""
        return self.conv3(pdl.concat([self.m(self.conv1(x)), self.conv2(x)], axis=3))  # type: ignore[no-any-return]


class Focus(nn.Module):
    """Blocks of 2 x 2 pixels as channels, then a convolution 3 x 3; here one of 6 x 6 with stride 2, which is the same
    and copies nothing.
    """

    def __init__(self, in_channels: int, channels: int) -> None:
        self.conv = conv(in_channels, channels, 6, stride=2)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> [N, H / 2, W / 2, channels]."""
        return self.conv(x)  # type: ignore[no-any-return]


class SPPBottleneck(nn.Module):
    """Half of the channels and their maxima over windows of 5, 9 and 13 cells."""

    def __init__(self, channels: int) -> None:
        self.conv1, self.conv2 = conv(channels, channels // 2), conv(channels // 2 * 4, channels)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, H, W, C] -> the same shape."""
        return self.conv2(maxima(self.conv1(x)))  # type: ignore[no-any-return]


class CSPDarknet(nn.Module):
    """The backbone of YOLOv5 and YOLOX: x [N, H, W, 3] -> maps of strides 8, 16 and 32."""

    strides = STRIDES

    def __init__(self, depth: float, width: float, separable: bool) -> None:
        base, count = int(width * 64), max(round(depth * 3), 1)
        self.channels = (base * 4, base * 8, base * 16)
        self.stem = Focus(3, base)
        self.dark2 = self._stage(base, count, separable)
        self.dark3 = self._stage(base * 2, 3 * count, separable)
        self.dark4 = self._stage(base * 4, 3 * count, separable)
        self.dark5 = nn.Sequential(
            wide(base * 8, base * 16, separable, stride=2),
            SPPBottleneck(base * 16),
            CSPLayer(base * 16, base * 16, count, shortcut=False, separable=separable),
        )

    @staticmethod
    def _stage(channels: int, count: int, separable: bool) -> nn.Sequential:
        layer = CSPLayer(2 * channels, 2 * channels, count, separable=separable)
        return nn.Sequential(wide(channels, 2 * channels, separable, stride=2), layer)

    def forward(self, x: pdl.Tensor) -> list[pdl.Tensor]:
        """x [N, H, W, 3] -> maps of strides 8, 16 and 32."""
        c3 = self.dark3(self.dark2(self.stem(x)))
        c4 = self.dark4(c3)
        return [c3, c4, self.dark5(c4)]


class PAFPN(nn.Module):
    """Down and up again through the maps of a backbone (Liu et al., arXiv 1803.01534), with CSP layers."""

    def __init__(self, in_channels: tuple[int, ...], depth: float, width: float, separable: bool) -> None:
        c3, c4, c5 = in_channels
        small, middle, large = self.channels = (int(256 * width), int(512 * width), int(1024 * width))
        count = round(3 * depth)
        plain: dict[str, Any] = {"shortcut": False, "separable": separable}
        self.lateral_conv0, self.C3_p4 = conv(c5, middle), CSPLayer(middle + c4, middle, count, **plain)
        self.reduce_conv1, self.C3_p3 = conv(middle, small), CSPLayer(small + c3, small, count, **plain)
        self.bu_conv2, self.C3_n3 = wide(small, small, separable, stride=2), CSPLayer(2 * small, middle, count, **plain)
        self.bu_conv1 = wide(middle, middle, separable, stride=2)
        self.C3_n4 = CSPLayer(2 * middle, large, count, **plain)

    def forward(self, maps: list[pdl.Tensor]) -> list[pdl.Tensor]:
        """Maps of strides 8, 16 and 32 -> as many."""
        c3, c4, c5 = maps
        high = self.lateral_conv0(c5)
        middle = self.reduce_conv1(self.C3_p4(pdl.concat([pdl.upsample_nearest(high, 2), c4], axis=3)))
        p3 = self.C3_p3(pdl.concat([pdl.upsample_nearest(middle, 2), c3], axis=3))
        p4 = self.C3_n3(pdl.concat([self.bu_conv2(p3), middle], axis=3))
        return [p3, p4, self.C3_n4(pdl.concat([self.bu_conv1(p4), high], axis=3))]


class Predictions(NamedTuple):
    """Before decoding: logits of classes [N, A, C], offsets and logarithms of sizes [N, A, 4] in strides, logits of
    "there is an object" [N, A, 1], and the cells.
    """

    classes: pdl.Tensor
    places: pdl.Tensor
    objects: pdl.Tensor
    points: Points


class YOLOX(Detector):
    """Images [N, H, W, 3] -> detections. Classes and boxes have branches of their own; training assigns predictions to
    objects by SimOTA.

    size        nano, tiny, s, m, l or x
    backbone    a net of pdl_cv's within `Backbone`, with maps of strides 8, 16 and 32; the paper's where there is none
    l1          whether the loss has a part for distances between boxes, as the authors' last 15 epochs
    pretrained  a name of the hub or a file
    """

    head: ClassVar[tuple[str, ...]] = ("cls_preds.0", "cls_preds.1", "cls_preds.2")
    selection = Selection(iou=0.65, score=0.01)

    def __init__(
        self,
        size: Size = "s",
        *,
        num_classes: Width = 80,
        backbone: Backbone | None = None,
        l1: bool = False,
        pretrained: str | None = None,
    ) -> None:
        depth, width, separable = SIZES[size]
        self.num_classes, self.l1 = num_classes, l1
        self.backbone = backbone or CSPDarknet(depth, width, separable)
        self.neck = PAFPN(self.backbone.channels, depth, width, separable)
        hidden = int(256 * width)
        self.stems = nn.ModuleList(conv(channels, hidden) for channels in self.neck.channels)
        self.cls_convs, self.reg_convs = (
            nn.ModuleList(nn.Sequential(*(wide(hidden, hidden, separable) for _ in range(2))) for _ in STRIDES)
            for _ in range(2)
        )
        self.cls_preds, self.reg_preds, self.obj_preds = (
            nn.ModuleList(nn.Conv2d(hidden, channels, 1) for _ in STRIDES) for channels in (num_classes, 4, 1)
        )
        for last in (*self.cls_preds, *self.obj_preds):
            nn.init.constant_(cast(pdl.Tensor, cast(nn.Conv2d, last).bias), prior_bias())
        take_pretrained(self, pretrained)

    def predictions(self, images: pdl.Tensor) -> Predictions:
        """Images [N, H, W, 3] -> what the last layers say."""
        classes, places, objects = [], [], []
        for level, x in enumerate(self.neck(self.backbone(images))):
            stem = self.stems[level](x)
            classes.append(self.cls_preds[level](chain(cast(Any, self.cls_convs[level]), stem)))
            y = chain(cast(Any, self.reg_convs[level]), stem)
            places.append(self.reg_preds[level](y))
            objects.append(self.obj_preds[level](y))
        return Predictions(flat(classes), flat(places), flat(objects), points_of(classes, STRIDES))

    @staticmethod
    def boxes(places: pdl.Tensor, points: Points) -> pdl.Tensor:
        """Boxes [N, A, 4] in pixels: the offset counts from the cell's corner."""
        stride = points.stride[:, None]
        centre = places[..., :2] * stride + (points.at - stride / 2)
        half = pdl.exp(places[..., 2:]) * (stride / 2)
        return pdl.concat([centre - half, centre + half], axis=2)

    def decoded(self, found: Predictions, size: Sequence[int]) -> tuple[pdl.Tensor, pdl.Tensor]:
        """Boxes [N, A, 4] and scores [N, A, C]: probability of an object times that of the class."""
        return self.boxes(found.places, found.points), pdl.sigmoid(found.classes) * pdl.sigmoid(found.objects)

    def losses(self, found: Predictions, targets: Targets, size: Sequence[int]) -> dict[str, pdl.Tensor]:
        """box: 1 - IoU^2; object and class: binary cross-entropy, the class's target the IoU; l1. Sums over the
        predictions that are to find something (object: all), by their number.
        """
        boxes = self.boxes(found.places, found.points)
        scores = pdl.sqrt(pdl.sigmoid(found.classes.detach()) * pdl.sigmoid(found.objects.detach()))
        index, iou = simota_assign(
            found.points.at, found.points.stride, boxes.detach(), scores, targets.boxes, targets.labels
        )
        wanted = take_assigned(targets.boxes, index)
        classes = class_targets(index, targets.labels, num_classes=self.num_classes, quality=iou)
        positive = pdl.astype(pdl.greater_equal(index, 0), boxes.dtype)
        count, mask = pdl.maximum(pdl.sum(positive), 1.0), pdl.expand_dims(positive, axis=2)
        away = pdl.box_iou_loss(boxes, wanted, kind="iou")
        entropy = pdl.binary_cross_entropy_with_logits
        parts = {
            "box": BOX * pdl.sum(away * (2 - away) * positive),
            "object": entropy(found.objects, mask, reduction="sum"),
            "class": entropy(found.classes, classes, weight=mask, reduction="sum"),
        }
        if self.l1:
            parts["l1"] = pdl.sum(pdl.abs(found.places - self._places(wanted, found.points)) * mask)
        return {name: part / count for name, part in parts.items()}

    @staticmethod
    def _places(boxes: pdl.Tensor, points: Points) -> pdl.Tensor:
        """What the last layer should say of boxes [N, A, 4]: undoes `boxes`."""
        stride = points.stride[:, None]
        low, high = boxes[..., :2], boxes[..., 2:]
        offset = (low + high) * (0.5 / stride) - (points.at / stride - 0.5)
        return pdl.concat([offset, pdl.log((high - low) / stride + 1e-8)], axis=2)


TASK = "detection"
VARIANTS: dict[str, dict[str, Any]] = {f"yolox_{size}": {"_target_": "pdl_cv.YOLOX", "size": size} for size in SIZES}


def remap(model: YOLOX, state: Mapping[str, Any]) -> dict[str, Any]:
    """A state dict (arrays by name) of the authors' code in pdl's names and layouts."""
    names = [(r"^backbone\.(?!backbone\.)", "neck."), (r"^backbone\.backbone\.", "backbone."), (r"^head\.", "")]
    found = substituted(state, names)
    if (stem := "backbone.stem.conv.conv.weight") in found:
        found[stem] = _of_pixels(np.asarray(found[stem]))
    return nn.from_torch(model, found)


def _of_pixels(weight: Array) -> Array:
    """The weight [O, 4 C, 3, 3] for blocks of 2 x 2 pixels, whose channels are columns of rows of C, as one for pixels,
    [O, C, 6, 6].
    """
    columns_rows = weight.reshape(len(weight), 2, 2, -1, 3, 3)
    return columns_rows.transpose(0, 3, 4, 2, 5, 1).reshape(len(weight), -1, 6, 6)
