"""PyramidBox: Tang et al., PyramidBox: a context-assisted single shot face detector, ECCV 2018 (arXiv 1803.07737), with
the layers of the authors' code (PaddlePaddle/models, PaddleCV/face_detection).

Maps of strides 4 to 128 predict squares of 16 to 512 pixels, as in S3FD (Zhang et al., arXiv 1708.05237). The first
get what those above see (LFPN), each passes through wide layers of three reaches (CPM), and besides faces the net is
taught where heads and bodies are (PyramidAnchors), which a deployed one does not compute.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import numpy as np

import pdl
from pdl import nn
from pdl.hints import Range
from pdl.nn.blocks import Chain, ConvNorm, chain
from pdl_cv.models.blazeface import squares
from pdl_cv.models.blocks import take_pretrained
from pdl_cv.models.detector import Backbone, Detections, Selection, Targets, clipped, without_classifier
from pdl_cv.models.ssd import NORM, SSD, Predictions, multibox_losses, unit_length, xavier
from pdl_cv.models.vgg import VGG

Above = Annotated[float, Range(above=0)]
STRIDES = (4, 8, 16, 32, 64, 128)
SIDES = ((16,), (32,), (64,), (128,), (256,), (512,))
LENGTHS = (10.0, 8.0, 5.0)  # that the values at a cell of the first maps have at first
MATCHED = 0.35  # IoU from which on a square is to find a face
LABELS = 3  # scores of which the highest counts: of the background on the first map, of faces on the others
SELECTION = Selection(iou=0.3, score=0.01, candidates=5000, most=750)


class VGGMaps(nn.Module):
    """The maps of a VGG-16: conv3_3, conv4_3, conv5_3, and fc7, linear layers that became convolutions."""

    channels = (256, 512, 512, 1024)

    def __init__(self, net: VGG) -> None:
        self.net: Any = without_classifier(net)
        self.pools = [i for i, layer in enumerate(net.features) if isinstance(layer, nn.MaxPool2d)]
        self.fc = nn.Sequential(nn.Conv2d(512, 1024, 3, padding=1), nn.ReLU(), nn.Conv2d(1024, 1024, 1), nn.ReLU())
        xavier(self.fc)

    def forward(self, x: pdl.Tensor) -> list[pdl.Tensor]:
        """x [N, H, W, 3] -> maps of strides 4, 8, 16 and 32."""
        layers, maps, first = list(self.net.features), [], 0
        for end in self.pools:
            x, first = chain(layers[first:end], x), end
            maps.append(x)
        return [*maps[2:], self.fc(layers[first](x))]


class ContextModule(nn.Module):
    """CPM: a residual block of 4 `width` channels; then rows of one, two and three 3 x 3 convolutions, side by side, of
    2 `width` channels together; section 3.2."""

    def __init__(self, channels: int, width: int) -> None:
        wide, half = 4 * width, width // 2
        self.shortcut = ConvNorm(channels, wide, 1, activation=None, **NORM)
        last = ConvNorm(width, wide, 1, activation=None, **NORM)
        self.body = Chain(ConvNorm(channels, width, 1, **NORM), ConvNorm(width, width, **NORM), last)
        self.near = nn.Conv2d(wide, width, 3, padding=1)
        self.narrow = nn.Conv2d(wide, half, 3, padding=1)
        self.middle = nn.Conv2d(half, half, 3, padding=1)
        self.far = nn.Sequential(nn.Conv2d(half, half, 3, padding=1), nn.ReLU(), nn.Conv2d(half, half, 3, padding=1))

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [N, h, w, C] -> [N, h, w, 2 width]."""
        x = pdl.relu(self.body(x) + self.shortcut(x))
        narrow = pdl.relu(self.narrow(x))
        return pdl.relu(pdl.concat([self.near(x), self.middle(narrow), self.far(narrow)], axis=-1))


class L2Norm(nn.Module):
    """x [..., C] -> `weight` x / |x|, of which the length is `length` at first; arXiv 1506.04579."""

    def __init__(self, channels: int, length: float) -> None:
        self.weight = nn.Parameter(np.full(channels, length, np.float32))

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [..., C] -> [..., C]."""
        return unit_length(x) * self.weight


class PyramidBox(SSD):
    """Images [N, H, W, 3] -> boxes of faces (or of `num_classes` classes); H and W are multiples of 32.

    backbone  a classification net; none is a fresh VGG-16, of which fc6 and fc7 are convolutions
    width     of the layers behind it, a quarter of the widest
    regions   how many times larger than an object the regions around it are that further layers are taught: head and
              body; the authors' code has the head alone
    """

    stride = 32

    def __init__(
        self,
        *,
        num_classes: Annotated[int, Range(1)] = 1,
        backbone: nn.Module | None = None,
        width: Annotated[int, Range(2)] = 256,
        regions: tuple[Above, ...] = (2, 4),
        selection: Selection = SELECTION,
        pretrained: str | None = None,
    ) -> None:
        net = VGG(16) if backbone is None else backbone
        self.backbone = VGGMaps(net) if isinstance(net, VGG) else Backbone(net, STRIDES[:4], last_conv=True)
        self.num_classes, self.regions, self.selection = num_classes, regions, selection
        maps = self.backbone.channels
        self.extra = nn.ModuleList([_halving(maps[-1], width, 2 * width), _halving(2 * width, width // 2, width)])
        pairs = list(zip(maps[:0:-1], maps[-2::-1], strict=True))
        self.down = nn.ModuleList([nn.Conv2d(above, c, 1) for above, c in pairs])
        self.across = nn.ModuleList([nn.Conv2d(c, c, 1) for _, c in pairs])
        self.context = nn.ModuleList([ContextModule(c, width) for c in (*maps, 2 * width, width)])
        self.lengths = nn.ModuleList([L2Norm(2 * width, length) for length in LENGTHS])
        self.classes = _heads(width, [LABELS + num_classes, *[1 + LABELS * num_classes] * (len(STRIDES) - 1)])
        self.boxes = _heads(width, [4] * len(STRIDES))
        self.region_classes = nn.ModuleList([_heads(width, [2] * len(STRIDES)) for _ in regions])
        self.region_boxes = nn.ModuleList([_heads(width, [4] * len(STRIDES)) for _ in regions])
        for name, module in self.named_children():
            if name != "backbone":
                xavier(module)
        self.head = tuple(f"classes.{i}" for i in range(len(STRIDES)))
        take_pretrained(self, pretrained)

    def forward(self, images: pdl.Tensor) -> Detections:
        """The objects found; regions around them are not computed."""
        return self.detections(self.predictions(images, regions=False), images.shape[1:3])

    def dense(self, images: pdl.Tensor) -> tuple[pdl.Tensor, pdl.Tensor]:
        """Boxes and scores before suppression; see `decoded`."""
        return self.decoded(self.predictions(images, regions=False), images.shape[1:3])

    def predictions(self, images: pdl.Tensor, *, regions: bool = True) -> tuple[Predictions, ...]:  # type: ignore[override]
        """Images [N, H, W, 3] -> what the last layers say of objects and, with `regions`, of those around them."""
        maps = self._maps(images)
        cells = [(int(x.shape[1]), int(x.shape[2])) for x in maps]
        anchors = squares(cells, STRIDES, SIDES)
        scores = [layer(x) for layer, x in zip(self.classes, maps, strict=True)]
        logits = [_highest(x, self.num_classes, level) for level, x in enumerate(scores)]
        found = [Predictions(anchors, pdl.concat(logits, axis=1), _rows(self.boxes, maps, 4))]
        around = zip(self.region_classes, self.region_boxes, strict=True) if regions else ()
        return (*found, *(Predictions(anchors, _rows(c, maps, 2), _rows(b, maps, 4)) for c, b in around))

    def _maps(self, images: pdl.Tensor) -> list[pdl.Tensor]:
        """What the last layers read."""
        maps = self.backbone(images)
        for i, (down, across) in enumerate(zip(self.down, self.across, strict=True), 2):
            x = maps[-i]
            above = pdl.resize(pdl.relu(down(maps[1 - i])), x.shape[1:3])
            maps[-i] = above * pdl.relu(across(x))
        for block in self.extra:
            maps.append(block(maps[-1]))
        found = [module(x) for module, x in zip(self.context, maps, strict=True)]
        return [*(norm(x) for norm, x in zip(self.lengths, found, strict=False)), *found[len(LENGTHS) :]]

    def decoded(self, found: Any, size: Sequence[int]) -> tuple[pdl.Tensor, pdl.Tensor]:
        """Boxes [N, A, 4] in pixels of the images, scores [N, A, C]."""
        return super().decoded(found[0], size)

    def losses(self, found: Any, targets: Targets, size: Sequence[int]) -> dict[str, pdl.Tensor]:
        """Those of SSD, of objects and of the regions around them, which are of one class; section 3.3."""
        parts = multibox_losses(found[0], targets.boxes, targets.labels, matched=MATCHED)
        label = pdl.where(targets.labels >= 0, 0, -1)
        for each, factor in zip(found[1:], self.regions, strict=True):
            around = multibox_losses(each, region(targets.boxes, factor, size), label, matched=MATCHED)
            parts |= {f"{name}_{factor:g}x": part for name, part in around.items()}
        return parts


def region(boxes: pdl.Tensor, factor: float, size: Sequence[int]) -> pdl.Tensor:
    """Boxes [..., 4] made `factor` times as wide and high around their middles, and cut off at the edges of an image of
    height and width `size`."""
    middle, half = (boxes[..., :2] + boxes[..., 2:]) / 2, (boxes[..., 2:] - boxes[..., :2]) * (factor / 2)
    return clipped(pdl.concat([middle - half, middle + half], axis=-1), size)


def _halving(channels: int, inner: int, out: int) -> nn.Module:
    """A map of half the resolution."""
    return nn.Sequential(
        nn.Conv2d(channels, inner, 1), nn.ReLU(), nn.Conv2d(inner, out, 3, stride=2, padding=1), nn.ReLU()
    )


def _heads(width: int, channels: Sequence[int]) -> nn.ModuleList:
    return nn.ModuleList([nn.Conv2d(2 * width, each, 3, padding=1) for each in channels])


def _rows(layers: Any, maps: Sequence[pdl.Tensor], columns: int) -> pdl.Tensor:
    """[N, A, columns] of a layer for each map."""
    found = [pdl.reshape(layer(x), (x.shape[0], -1, columns)) for layer, x in zip(layers, maps, strict=True)]
    return pdl.concat(found, axis=1)


def _highest(x: pdl.Tensor, classes: int, level: int) -> pdl.Tensor:
    """Max-in-out: logits [N, A, 1 + C], the background's first, of a map [N, h, w, ...] with `LABELS` of the background
    on the first level, and with as many of each class on the others; section 3.4."""
    x = pdl.reshape(x, (x.shape[0], -1, x.shape[3]))
    if level == 0:
        return pdl.concat([pdl.max(x[..., :LABELS], axis=-1, keepdims=True), x[..., LABELS:]], axis=-1)
    each = pdl.reshape(x[..., 1:], (x.shape[0], -1, classes, LABELS))
    return pdl.concat([x[..., :1], pdl.max(each, axis=-1)], axis=-1)


TASK = "detection"
VARIANTS: dict[str, dict[str, Any]] = {"pyramidbox": {"_target_": "pdl_cv.PyramidBox"}}


def remap(model: PyramidBox, state: Mapping[str, Any]) -> dict[str, Any]:
    """A state dict of PyTorch's layouts (arrays by name) in pdl's; the names are the same."""
    return nn.from_torch(model, state)
