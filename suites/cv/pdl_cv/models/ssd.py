"""SSD: Liu et al., SSD: single shot multibox detector, ECCV 2016 (arXiv 1512.02325), and SSDLite (Sandler et al., CVPR
2018, arXiv 1801.04381). Nets and conventions are torchvision's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple

import numpy as np

import pdl
from pdl import nn
from pdl.dtype import Array
from pdl.errors import ConfigError
from pdl.hints import Range
from pdl.nn.blocks import Chain, ConvNorm, chain
from pdl.nn.module import evaluating
from pdl_cv.models.blocks import substituted, take_pretrained
from pdl_cv.models.detector import LOOKED_AT, Backbone, Detector, Selection, Targets, clipped, without_classifier
from pdl_cv.models.mobilenet_v2 import MobileNetV2
from pdl_cv.models.mobilenet_v3 import MobileNetV3
from pdl_cv.models.vgg import VGG
from pdl_cv.ops import hard_negatives, max_iou_assign, take_assigned

Width = Annotated[int, Range(1)]
Above = Annotated[float, Range(above=0)]

WEIGHTS = (10.0, 10.0, 5.0, 5.0)  # what the four numbers of a box's shift are multiplied by
NORM: dict[str, Any] = {"eps": 1e-3}  # of the layers behind a MobileNet
SELECTION = Selection(iou=0.45, score=0.01, most=200)
NEGATIVES = 3  # boxes of the background for each one of an object
#: channels, kernel, stride and padding of the layers behind a VGG, for images of 300 and of 512 pixels
BEHIND_VGG = {
    False: ((512, 3, 2, 1), (256, 3, 2, 1), (256, 3, 1, 0), (256, 3, 1, 0)),
    True: ((512, 3, 2, 1), (256, 3, 2, 1), (256, 3, 2, 1), (256, 3, 2, 1), (256, 4, 1, 1)),
}


# -- feature maps ------------------------------------------------------------------------------------------------------
class VGGMaps(nn.Module):
    """The maps of a VGG: conv4_3, scaled to one length, and fc7, a linear layer that became a convolution."""

    def __init__(self, net: VGG) -> None:
        without_classifier(net)
        pools = [i for i, layer in enumerate(net.features) if isinstance(layer, nn.MaxPool2d)]
        net.features[pools[2]] = nn.MaxPool2d(2, ceil_mode=True)
        self.net: Any = net
        self.pool = pools[3]
        self.scale_weight = nn.Parameter(np.full(512, 20.0, np.float32))
        atrous = nn.Conv2d(512, 1024, 3, padding=6, dilation=6)
        self.fc = nn.Sequential(
            nn.MaxPool2d(3, stride=1, padding=1), atrous, nn.ReLU(), nn.Conv2d(1024, 1024, 1), nn.ReLU()
        )
        xavier(self.fc)
        self.channels = 512, 1024

    def forward(self, x: pdl.Tensor) -> list[pdl.Tensor]:
        """x [N, H, W, 3] -> maps of strides 8 and 16."""
        layers = list(self.net.features)
        x = chain(layers[: self.pool], x)
        return [unit_length(x) * self.scale_weight, self.fc(chain(layers[self.pool : -1], x))]


class ExpandedMaps(nn.Module):
    """The maps of a MobileNet, V2 or V3, that SSDLite reads: what its first block of stride 32 expands, still of stride
    16, and the last.
    """

    def __init__(self, net: MobileNetV2 | MobileNetV3) -> None:
        self.net: Any = net
        without_classifier(net, last_conv=True)
        strided = [
            i
            for i, block in enumerate(self.net.features)
            if any(isinstance(layer, nn.Conv2d) and layer.stride == (2, 2) for layer in block.modules())
        ]
        self.block = strided[-1]
        with evaluating(self):
            self.channels = tuple(x.shape[3] for x in self.forward(pdl.zeros(1, LOOKED_AT, LOOKED_AT, 3)))

    def forward(self, x: pdl.Tensor) -> list[pdl.Tensor]:
        """x [N, H, W, 3] -> maps of strides 16 and 32."""
        before, block, behind = _split(list(self.net.features), self.block)
        expand, *rest = block.conv if hasattr(block, "conv") else block.block
        middle = expand(chain(before, x))
        return [middle, chain([*rest, *behind], middle)]


def _split(layers: list[Any], at: int) -> tuple[list[Any], Any, list[Any]]:
    return layers[:at], layers[at], layers[at + 1 :]


def _feature_maps(net: nn.Module, lite: bool) -> Any:
    """What gives the first maps."""
    if isinstance(net, VGG):
        return VGGMaps(net)
    if lite and isinstance(net, MobileNetV2 | MobileNetV3):
        return ExpandedMaps(net)
    return net if hasattr(net, "channels") else Backbone(net, (16, 32), last_conv=True)


def _behind_vgg(highres: bool) -> Iterator[nn.Module]:
    """Further maps: 1 x 1 to half the channels, then a convolution that shrinks the map."""
    channels = 1024
    for out, kernel, stride, padding in BEHIND_VGG[highres]:
        shrink = nn.Conv2d(out // 2, out, kernel, stride=stride, padding=padding)
        yield nn.Sequential(nn.Conv2d(channels, out // 2, 1), nn.ReLU(), shrink, nn.ReLU())
        channels = out


def _behind(channels: int, widths: Sequence[int], lite: bool) -> Iterator[nn.Module]:
    """Further maps of half the resolution each: 1 x 1 to half the channels, then 3 x 3, depthwise where `lite`."""
    act: dict[str, Any] = {"activation": nn.ReLU6, **NORM}
    for out in widths:
        half = out // 2
        if lite:
            last = [ConvNorm(half, half, stride=2, groups=half, **act), ConvNorm(half, out, 1, **act)]
        else:
            last = [ConvNorm(half, out, stride=2, **act)]
        yield Chain(ConvNorm(channels, half, 1, **act), *last)
        channels = out


def _head(channels: int, out: int, kernel: int, lite: bool) -> nn.Module:
    """A layer that gives `out` numbers for each cell of a map."""
    if lite:
        depthwise = ConvNorm(channels, channels, kernel, groups=channels, activation=nn.ReLU6, **NORM)
        return Chain(depthwise, nn.Conv2d(channels, out, 1))
    return nn.Conv2d(channels, out, kernel, padding=kernel // 2)


def xavier(module: nn.Module) -> None:
    """Convolutions: Glorot, Bengio, AISTATS 2010; biases 0."""
    for layer in module.modules():
        if isinstance(layer, nn.Conv2d):
            nn.init.xavier_uniform_(layer.weight)
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


def unit_length(x: pdl.Tensor) -> pdl.Tensor:
    """x [..., C] with the values at each place divided by their length; Liu et al., ParseNet, arXiv 1506.04579."""
    return x / pdl.sqrt(pdl.maximum(pdl.sum(x * x, axis=-1, keepdims=True), 1e-24))


# -- boxes -------------------------------------------------------------------------------------------------------------
def default_boxes(
    cells: Sequence[Sequence[int]],
    size: Sequence[int],
    scales: Sequence[float],
    ratios: Sequence[Sequence[float]],
    steps: Sequence[float] | None = None,
    *,
    reduced: bool = False,
) -> Array:
    """The boxes of maps of rows x columns `cells`, of images of height and width `size`: float32 [A, 4], map by map, in
    the order of rows, columns and shapes.

    A cell of map k has squares of sides s_k and sqrt(s_k s_(k+1)), and boxes of s_k sqrt(r) x s_k / sqrt(r) and the
    other way around for its ratios r, where s_k is the share of the image in `scales`, one more than there are maps.
    Centres are `steps` pixels apart; without, they divide the image evenly. With `reduced` the first map has one
    square, of half the side.

    Neighbours that hold a whole object overlap it equally, and rounding decides which finds it: numbers are rounded to
    float32 at the steps where torchvision rounds them.
    """
    height, width = size
    found = []
    for k, (rows, columns) in enumerate(cells):
        roots = [np.sqrt(r) for r in ratios[k]]
        squares = [0.5] if reduced and k == 0 else [1.0, np.sqrt(scales[k + 1] / scales[k])]
        shapes = [(side, side) for side in squares] + [shape for r in roots for shape in ((r, 1 / r), (1 / r, r))]
        sides = np.clip(np.array(shapes) * scales[k], 0, 1).astype(np.float32) / 2
        down, across = (rows, columns) if steps is None else (height / steps[k], width / steps[k])
        places = ((np.arange(count, dtype=np.float32) + 0.5) / of for count, of in ((rows, down), (columns, across)))
        y, x = np.meshgrid(*places, indexing="ij")
        centres = np.stack([x, y], axis=-1).reshape(-1, 1, 2)
        found.append(np.concatenate([centres - sides, centres + sides], axis=-1).reshape(-1, 4))
    return np.concatenate(found) * np.array([width, height, width, height], np.float32)


# -- the net -----------------------------------------------------------------------------------------------------------
class Predictions(NamedTuple):
    """Default boxes float32 [A, 4], logits [N, A, 1 + C], the background's first, and shifts [N, A, 4]."""

    anchors: Array
    logits: pdl.Tensor
    shifts: pdl.Tensor


class SSD(Detector):
    """Images [N, H, W, 3] -> boxes of `num_classes` classes, predicted in one pass from maps of several resolutions.

    backbone  a classification net, or a module with `channels` that gives feature maps; none is a fresh VGG-16
    highres   behind a VGG: a map more, for images of 512 pixels
    extra     channels of the maps behind the backbone's, of half the resolution each; not used with a VGG
    lite      depthwise separable convolutions behind the backbone
    kernel    of the layers that predict, 3 or 1
    scales    of the boxes of each map, as shares of the image, and one more
    ratios    of the boxes of each map beside squares: width to height, and the other way around
    steps     pixels between the centres of boxes; without, they divide the image evenly
    reduced   the first map has one square, of half the side, for two
    """

    head: str | tuple[str, ...] = ()
    stride = 1

    def __init__(
        self,
        num_classes: Width = 90,
        *,
        backbone: nn.Module | None = None,
        highres: bool = False,
        extra: tuple[Width, ...] = (512, 256, 256, 128),
        lite: bool = False,
        kernel: Literal[1, 3] = 3,
        scales: tuple[Above, ...] = (0.07, 0.15, 0.33, 0.51, 0.69, 0.87, 1.05),
        ratios: tuple[tuple[Above, ...], ...] = ((2,), (2, 3), (2, 3), (2, 3), (2,), (2,)),
        steps: tuple[Above, ...] | None = None,
        reduced: bool = False,
        selection: Selection = SELECTION,
        pretrained: str | None = None,
    ) -> None:
        net = VGG(16) if backbone is None else backbone
        self.backbone = _feature_maps(net, lite)
        channels = self.backbone.channels
        if isinstance(net, VGG):
            self.extra = nn.ModuleList(list(_behind_vgg(highres)))
            widths = [*channels, *(each[0] for each in BEHIND_VGG[highres])]
        else:
            self.extra = nn.ModuleList(list(_behind(channels[-1], extra, lite)))
            widths = [*channels, *extra]
        _check(len(widths), scales, ratios, steps)
        self.scales, self.ratios, self.steps, self.reduced = scales, ratios, steps, reduced
        self.num_classes, self.selection = num_classes, selection
        shapes = [(1 if reduced and k == 0 else 2) + 2 * len(each) for k, each in enumerate(ratios)]
        self.classes = nn.ModuleList(
            [_head(c, a * (num_classes + 1), kernel, lite) for c, a in zip(widths, shapes, strict=True)]
        )
        self.boxes = nn.ModuleList([_head(c, 4 * a, kernel, lite) for c, a in zip(widths, shapes, strict=True)])
        self.head = tuple(f"classes.{i}.1" if lite else f"classes.{i}" for i in range(len(widths)))
        self._initialise(isinstance(net, VGG))
        take_pretrained(self, pretrained)

    def _initialise(self, vgg: bool) -> None:
        for module in (self.extra, self.classes, self.boxes):
            if vgg:
                xavier(module)
                continue
            for layer in module.modules():
                if isinstance(layer, nn.Conv2d):
                    nn.init.normal_(layer.weight, std=0.03)
                    if layer.bias is not None:
                        nn.init.zeros_(layer.bias)

    def predictions(self, images: pdl.Tensor) -> Predictions:
        """Images [N, H, W, 3] -> what the last layers say."""
        maps = self.backbone(images)
        for block in self.extra:
            maps.append(block(maps[-1]))
        n, logits, shifts = images.shape[0], [], []
        for x, classes, boxes in zip(maps, self.classes, self.boxes, strict=True):
            logits.append(pdl.reshape(classes(x), (n, -1, self.num_classes + 1)))
            shifts.append(pdl.reshape(boxes(x), (n, -1, 4)))
        cells = [x.shape[1:3] for x in maps]
        anchors = default_boxes(cells, images.shape[1:3], self.scales, self.ratios, self.steps, reduced=self.reduced)
        return Predictions(anchors, pdl.concat(logits, axis=1), pdl.concat(shifts, axis=1))

    def decoded(self, found: Predictions, size: Sequence[int]) -> tuple[pdl.Tensor, pdl.Tensor]:
        """Boxes [N, A, 4] in pixels of the images, scores [N, A, C]."""
        boxes = pdl.box_decode(found.anchors, found.shifts, weights=WEIGHTS)
        return clipped(boxes, size), pdl.softmax(found.logits)[..., 1:]

    def losses(self, found: Predictions, targets: Targets, size: Sequence[int]) -> dict[str, pdl.Tensor]:
        """See `multibox_losses`."""
        return multibox_losses(found, targets.boxes, targets.labels)


def multibox_losses(
    found: Predictions, boxes: pdl.Tensor, labels: pdl.Tensor, *, matched: float = 0.5
) -> dict[str, pdl.Tensor]:
    """Cross-entropy of the classes, over boxes of objects and the hardest of the background, and the smooth L1 distance
    of the shifts, both through the number of boxes that find an object; equation 1.

    boxes, labels  [N, M, 4] and [N, M] of the objects, as `Targets` has them
    matched        IoU from which on a default box is to find an object
    """
    anchors, logits, shifts = found
    index = max_iou_assign(anchors, boxes, labels, positive=matched, negative=matched, forced=True)
    object_ = index >= 0
    label = pdl.where(object_, take_assigned(labels, index) + 1, 0)
    error = pdl.cross_entropy(logits, label, reduction="none")
    counted = hard_negatives(error.detach(), index, ratio=NEGATIVES) > -2
    wanted = pdl.box_encode(anchors, take_assigned(boxes, index), weights=WEIGHTS)
    distance = pdl.smooth_l1_loss(shifts, wanted, reduction="none")
    count = pdl.maximum(pdl.sum(object_.astype(pdl.float32)), 1.0)
    return {
        "classes": pdl.sum(pdl.where(counted, error, 0.0)) / count,
        "boxes": pdl.sum(pdl.where(object_[..., None], distance, 0.0)) / count,
    }


def _check(maps: int, scales: Sequence[float], ratios: Sequence[Any], steps: Sequence[float] | None) -> None:
    """ConfigError unless there are boxes for each map."""
    given = {"scales": (scales, maps + 1), "ratios": (ratios, maps), "steps": (steps, maps)}
    for name, (values, expected) in given.items():
        if values is not None and len(values) != expected:
            raise ConfigError(f"model.{name}: {len(values)} of them, expected {expected}: the net has {maps} maps")


TASK = "detection"
_EVEN: dict[str, Any] = {
    "scales": (0.2, 0.35, 0.5, 0.65, 0.8, 0.95, 1.0),
    "ratios": ((2, 3),) * 6,
    "selection": {"_target_": "pdl_cv.models.detector.Selection", "iou": 0.55, "score": 0.001, "most": 300},
}
_REDUCED = {**_EVEN, "ratios": ((2,), *[(2, 3)] * 5), "reduced": True}
VARIANTS: dict[str, dict[str, Any]] = {
    "ssd300_vgg16": {"_target_": "pdl_cv.SSD", "steps": (8, 16, 32, 64, 100, 300)},
    "ssd512_vgg16": {
        "_target_": "pdl_cv.SSD",
        "highres": True,
        "scales": (0.07, 0.15, 0.3, 0.45, 0.6, 0.75, 0.9, 1.05),
        "ratios": ((2,), (2, 3), (2, 3), (2, 3), (2, 3), (2,), (2,)),
        "steps": (8, 16, 32, 64, 128, 256, 512),
    },
    "ssd300_mobilenet_v1": {
        "_target_": "pdl_cv.SSD", "backbone": {"_target_": "pdl_cv.MobileNetV1"}, "kernel": 1, **_EVEN,
    },
    "ssdlite320_mobilenet_v1": {
        "_target_": "pdl_cv.SSD", "backbone": {"_target_": "pdl_cv.MobileNetV1"}, "lite": True, **_REDUCED,
    },
    "ssdlite320_mobilenet_v2": {
        "_target_": "pdl_cv.SSD", "backbone": {"_target_": "pdl_cv.MobileNetV2"}, "lite": True, **_REDUCED,
    },
    "ssdlite320_mobilenet_v3_large": {
        "_target_": "pdl_cv.SSD",
        "backbone": {"_target_": "pdl_cv.MobileNetV3", "reduced_tail": True},
        "lite": True,
        **_EVEN,
    },
}  # fmt: skip


def remap(model: SSD, state: Mapping[str, Any]) -> dict[str, Any]:
    """A torchvision state dict (arrays by name) in pdl's names and layouts."""
    if isinstance(model.backbone, VGGMaps):
        pool = model.backbone.pool
        first = [
            (r"^backbone\.extra\.0\.7\.", "backbone.fc."),
            (r"^backbone\.extra\.0\.(\d+)", lambda found: f"backbone.net.features.{int(found[1]) + pool}"),
            (r"^backbone\.extra\.(\d)", lambda found: f"extra.{int(found[1]) - 1}"),
            (r"^backbone\.features\.", "backbone.net.features."),
        ]
    else:
        at, block = model.backbone.block, rf"backbone.net.features.{model.backbone.block}.block"
        first = [
            (r"^backbone\.extra\.", "extra."),
            (rf"^backbone\.features\.0\.{at}\.", f"{block}.0."),
            (r"^backbone\.features\.0\.", "backbone.net.features."),
            (r"^backbone\.features\.1\.0\.(\d)", lambda found: f"{block}.{int(found[1])}"),
            (r"^backbone\.features\.1\.(\d)", lambda found: f"backbone.net.features.{int(found[1]) + at}"),
        ]
    names = [
        *first,
        (r"^head\.classification_head\.module_list\.", "classes."),
        (r"^head\.regression_head\.module_list\.", "boxes."),
    ]
    return nn.from_torch(model, substituted(state, names))
