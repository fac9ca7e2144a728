"""Faster R-CNN: Ren, He, Girshick, Sun, Faster R-CNN: towards real-time object detection with region proposal networks,
NeurIPS 2015 (arXiv 1506.01497), over a feature pyramid (Lin et al., CVPR 2017, arXiv 1612.03144). Nets and conventions
are torchvision's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

import pdl
from pdl import nn
from pdl.dtype import Array
from pdl.errors import ConfigError
from pdl.hints import Range
from pdl.nn.blocks import Chain, ConvNorm, initialise
from pdl_cv.models.blocks import substituted, take_pretrained
from pdl_cv.models.detector import Backbone, Detector, Selection, Share, Targets, clipped
from pdl_cv.models.pyramids import FeaturePyramid, multiscale_roi_align, rows_at
from pdl_cv.models.resnet import ResNet
from pdl_cv.ops import max_iou_assign, sample_assigned, take_assigned

Width = Annotated[int, Range(1)]
Pixels = Annotated[float, Range(above=0)]

ROIS = (10.0, 10.0, 5.0, 5.0)  # what the four numbers of a region's shift are multiplied by
PROPOSALS_OVERLAP = 0.7  # IoU above which the worse one of two proposals of a map is left out
SAMPLE = 256  # boxes of an image that the first net learns from
OBJECTS = 0.25  # share of the regions with objects, at most, that the second net learns from
IGNORED = -100  # label of what counts nothing
NARROWEST_PROPOSAL, NARROWEST_DETECTION = 1e-3, 1e-2  # sides in pixels


def wide(boxes: pdl.Tensor, least: float) -> pdl.Tensor:
    """Whether both sides of boxes [..., 4] are at least that long."""
    return pdl.min(boxes[..., 2:] - boxes[..., :2], axis=-1) >= least


def _seed(training: bool) -> pdl.Tensor:
    """Of the sample of regions that a loss is of: another in each step, always the same in an evaluation."""
    return pdl.draw_seed() if training else pdl.zeros((), dtype=pdl.int64)


class Shifted(NamedTuple):
    """The boxes of a map: float32 [A, 4] before they are shifted, logits [N, A] of there being an object, and shifts
    [N, A, 4]."""

    anchors: Array
    logits: pdl.Tensor
    shifts: pdl.Tensor


class RegionProposals(nn.Module):
    """A small net that slides over the maps of a pyramid, and tells objects from background for boxes of some shapes.

    sizes   sides of the boxes on each map, in pixels of the image: a map may have several
    ratios  of height to width, on all maps
    depth   3 x 3 convolutions before the two outputs
    score   boxes of a lower probability are no proposals
    """

    def __init__(
        self,
        channels: int,
        sizes: Sequence[Sequence[float]],
        ratios: Sequence[float],
        *,
        depth: int = 1,
        score: float = 0.0,
    ) -> None:
        self.sizes, self.ratios, self.score = sizes, ratios, score
        shapes = len(sizes[0]) * len(ratios)
        hidden = [nn.Sequential(nn.Conv2d(channels, channels, 3, padding=1), nn.ReLU()) for _ in range(depth)]
        self.conv = nn.Sequential(*hidden)
        self.cls_logits = nn.Conv2d(channels, shapes, 1)
        self.bbox_pred = nn.Conv2d(channels, 4 * shapes, 1)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.normal_(module.weight, std=0.01)
                nn.init.zeros_(module.get_parameter("bias"))

    def forward(self, maps: Sequence[pdl.Tensor], size: Sequence[int]) -> list[Shifted]:
        """Maps [N, h, w, C] of images of `size` (height, width) -> the boxes of each."""
        n = maps[0].shape[0]
        hidden = [self.conv(x) for x in maps]
        logits = [pdl.reshape(self.cls_logits(x), (n, -1)) for x in hidden]
        shifts = [pdl.reshape(self.bbox_pred(x), (n, -1, 4)) for x in hidden]
        anchors = [self.anchors(x.shape[1:3], size, sides) for x, sides in zip(maps, self.sizes, strict=True)]
        return [Shifted(*each) for each in zip(anchors, logits, shifts, strict=True)]

    def anchors(self, cells: Sequence[int], size: Sequence[int], sides: Sequence[float]) -> Array:
        """The boxes of a map of rows x columns, float32 [A, 4], in the order of rows, columns, ratios and sides."""
        rows, columns = cells
        tall = np.sqrt(np.asarray(self.ratios, np.float32))
        width, height = (np.outer(each, np.asarray(sides, np.float32)).reshape(-1) for each in (1 / tall, tall))
        shapes = np.round(np.stack([-width, -height, width, height], axis=1) / 2)
        y, x = np.meshgrid(
            np.arange(rows) * (size[0] // rows), np.arange(columns) * (size[1] // columns), indexing="ij"
        )
        return (np.stack([x, y, x, y], axis=-1).reshape(-1, 1, 4) + shapes).reshape(-1, 4).astype(np.float32)

    def propose(self, found: Sequence[Shifted], size: Sequence[int], most: int) -> tuple[pdl.Tensor, pdl.Tensor]:
        """The best `most` boxes of each map, and of all of them that no better one of their map overlaps, the best
        `most`: boxes [N, most, 4], and bool [N, most], which of the rows are boxes.
        """
        boxes, scores, apart = [], [], []
        for number, each in enumerate(found):
            score, index = pdl.topk(each.logits.detach(), min(most, len(each.anchors)), axis=1)
            box = pdl.box_decode(pdl.take(each.anchors, index, axis=0), rows_at(each.shifts.detach(), index))
            boxes.append(clipped(box, size))
            scores.append(pdl.sigmoid(score))
            apart.append(np.full((index.shape[1], 1), 2.0 * number * max(size), np.float32))
        box, score = pdl.concat(boxes, axis=1), pdl.concat(scores, axis=1)
        usable = pdl.logical_and(score >= self.score, wide(box, NARROWEST_PROPOSAL))
        *_, label, index = pdl.select_boxes(
            box + np.concatenate(apart), pdl.where(usable, score, 0.0)[..., None], iou_threshold=PROPOSALS_OVERLAP,
            score_threshold=0.0, candidates=score.shape[1], most=most,
        )  # fmt: skip
        return rows_at(box, index), label >= 0

    def loss(self, found: Sequence[Shifted], targets: Targets) -> dict[str, pdl.Tensor]:
        """Binary cross-entropy of a sample of the boxes, half of them with objects where there are as many, and the
        smooth L1 distance of the shifts of these, both through the size of the sample.
        """
        anchors = np.concatenate([each.anchors for each in found])
        index = max_iou_assign(anchors, targets.boxes, targets.labels, positive=0.7, negative=0.3)
        index = sample_assigned(index, _seed(self.training), count=SAMPLE, positive_share=0.5)
        at, truth = _kept(index, SAMPLE)
        logits = rows_at(pdl.concat([each.logits for each in found], axis=1)[..., None], at)[..., 0]
        shifts = rows_at(pdl.concat([each.shifts for each in found], axis=1), at)
        object_, count = truth >= 0, _count(truth > -2)
        error = pdl.binary_cross_entropy_with_logits(logits, object_.astype(pdl.float32), reduction="none")
        wanted = pdl.box_encode(pdl.take(anchors, pdl.maximum(at, 0), axis=0), take_assigned(targets.boxes, truth))
        return {
            "objectness": pdl.sum(pdl.where(truth > -2, error, 0.0)) / count,
            "proposals": _distance(shifts, wanted, object_) / count,
        }


def _kept(index: pdl.Tensor, count: int) -> tuple[pdl.Tensor, pdl.Tensor]:
    """Of the entries of index [N, A] that are not left out (-2) the first `count`, those that find something before the
    others: where they are, -1 where there are no more, and the entries, -2 there; both [N, count].
    """
    rank, at = pdl.topk(pdl.minimum(index, 0) + 2, min(count, index.shape[1]), axis=1)
    return pdl.where(rank > 0, at, -1), pdl.gather(index, at, axis=1)


def _count(mask: pdl.Tensor) -> pdl.Tensor:
    """How many are true, at least 1."""
    return pdl.maximum(pdl.sum(mask.astype(pdl.float32)), 1.0)


def _distance(shifts: pdl.Tensor, wanted: pdl.Tensor, object_: pdl.Tensor) -> pdl.Tensor:
    """The sum of the smooth L1 distances of shifts [..., 4] that belong to objects."""
    distance = pdl.smooth_l1_loss(shifts, wanted, beta=1 / 9, reduction="none")
    return pdl.sum(pdl.where(object_[..., None], distance, 0.0))


class BoxHead(nn.Module):
    """Features [R, size, size, C] of regions -> [R, hidden], by 3 x 3 convolutions with norms and linear layers."""

    def __init__(self, channels: int, size: int, hidden: int, *, convs: int, linears: int) -> None:
        self.convs = Chain(*(ConvNorm(channels, channels) for _ in range(convs)))
        widths = [channels * size * size, *[hidden] * linears]
        self.linears = nn.ModuleList([nn.Linear(a, b) for a, b in pairwise(widths)])
        initialise(self.convs)

    def forward(self, x: pdl.Tensor) -> pdl.Tensor:
        """x [R, size, size, C] -> [R, hidden]."""
        x = pdl.flatten(self.convs(x), start=1)
        for linear in self.linears:
            x = pdl.relu(linear(x))
        return x


class Predictions(NamedTuple):
    """The maps of the pyramid, and the boxes of each that the first net shifts."""

    maps: list[pdl.Tensor]
    shifted: list[Shifted]


class FasterRCNN(Detector):
    """Images [N, H, W, 3] -> boxes of `num_classes` classes: of regions that a first net proposes, a second one reads
    the features, tells the class, and moves the box.

    backbone            a classification net, whose maps of `strides` are used; a module with `strides` and `channels`
                        that gives the maps; or none, for a fresh ResNet-50
    channels            of the pyramid's maps
    anchor_sizes        sides of the boxes of each map, in pixels; maps beyond those of the backbone take every second
                        cell of the one before
    anchor_ratios       their heights through their widths
    proposals           regions of an image that the second net looks at; `proposal_score`: the least probability of one
    training_proposals  regions among which training chooses
    regions             of an image that training reads, a quarter of them with objects where there are as many
    region_size         cells a side of a region
    canonical           side in pixels of the regions that are read from the map of stride 16
    hidden              width of the second net; `linears` linear layers behind `convs` convolutions
    rpn_depth           convolutions of the first net
    norm                the pyramid has batch norms

    torchvision's "v2" nets (Li et al., arXiv 2111.11429) have norm, rpn_depth 2, convs 4 and linears 1.
    """

    head: ClassVar[str | tuple[str, ...]] = ("cls_score", "bbox_pred")
    selection = Selection(iou=0.5, score=0.05)

    def __init__(
        self,
        num_classes: Width = 90,
        *,
        backbone: nn.Module | None = None,
        strides: tuple[Width, ...] = (4, 8, 16, 32),
        channels: Width = 256,
        anchor_sizes: tuple[tuple[Pixels, ...], ...] = ((32,), (64,), (128,), (256,), (512,)),
        anchor_ratios: tuple[Pixels, ...] = (0.5, 1.0, 2.0),
        proposals: Width = 1000,
        proposal_score: Share = 0.0,
        training_proposals: Width = 1000,
        regions: Width = 512,
        region_size: Width = 7,
        canonical: Pixels = 224.0,
        hidden: Width = 1024,
        convs: Annotated[int, Range(0)] = 0,
        linears: Width = 2,
        rpn_depth: Width = 1,
        norm: bool = False,
        pretrained: str | None = None,
    ) -> None:
        net: Any = ResNet(50) if backbone is None else backbone
        self.backbone = net if hasattr(net, "channels") else Backbone(net, strides)
        extra = len(anchor_sizes) - len(self.backbone.strides)
        if extra < 0:
            raise ConfigError(
                f"model.anchor_sizes: {len(anchor_sizes)} maps, the backbone has {len(self.backbone.strides)} "
                f"(strides {self.backbone.strides}); give sizes for each"
            )
        self.proposals, self.training_proposals, self.regions = proposals, training_proposals, regions
        self.region_size, self.canonical = region_size, canonical
        self.pyramid = FeaturePyramid(self.backbone.channels, channels, extra=extra, norm=norm)
        self.rpn = RegionProposals(channels, anchor_sizes, anchor_ratios, depth=rpn_depth, score=proposal_score)
        self.box_head = BoxHead(channels, region_size, hidden, convs=convs, linears=linears)
        self.cls_score = nn.Linear(hidden, num_classes + 1)
        self.bbox_pred = nn.Linear(hidden, 4 * (num_classes + 1))
        for layer, std in ((self.cls_score, 0.01), (self.bbox_pred, 0.001)):
            nn.init.normal_(layer.weight, std=std)
            nn.init.zeros_(layer.get_parameter("bias"))
        take_pretrained(self, pretrained)

    def predictions(self, images: pdl.Tensor) -> Predictions:
        """Images [N, H, W, 3] -> what the pyramid and the first net say."""
        maps = self.pyramid(self.backbone(images))
        return Predictions(maps, self.rpn(maps, images.shape[1:3]))

    def decoded(self, found: Predictions, size: Sequence[int]) -> tuple[pdl.Tensor, pdl.Tensor]:
        """Boxes [N, P, C, 4] of every proposal, one for each class, and scores [N, P, C], 0 where there is no
        proposal."""
        proposals, used = self.rpn.propose(found.shifted, size, self.proposals)
        logits, shifts = self.read(found.maps, proposals, used)
        boxes = clipped(pdl.box_decode(proposals[:, :, None], shifts[:, :, 1:], weights=ROIS), size)
        scores = pdl.softmax(logits)[..., 1:]
        usable = pdl.logical_and(used[..., None], wide(boxes, NARROWEST_DETECTION))
        return boxes, pdl.where(usable, scores, 0.0)

    def read(self, maps: Sequence[pdl.Tensor], regions: pdl.Tensor, used: pdl.Tensor) -> tuple[pdl.Tensor, pdl.Tensor]:
        """What the second net says of regions [N, R, 4]: logits [N, R, 1 + C], the background's first, and shifts
        [N, R, 1 + C, 4]."""
        n, r = used.shape
        x = self.box_head(self.features(maps, regions, used, self.region_size))
        return pdl.reshape(self.cls_score(x), (n, r, -1)), pdl.reshape(self.bbox_pred(x), (n, r, -1, 4))

    def features(self, maps: Sequence[pdl.Tensor], regions: pdl.Tensor, used: pdl.Tensor, size: int) -> pdl.Tensor:
        """Cells [N R, size, size, C] of regions [N, R, 4] of the images."""
        strides = self.backbone.strides
        return multiscale_roi_align(
            maps[: len(strides)], regions, used, strides=strides, size=size, canonical=self.canonical
        )

    def losses(self, found: Predictions, targets: Targets, size: Sequence[int]) -> dict[str, pdl.Tensor]:
        """Of the first net `objectness` and `proposals` (see there), of the second the cross-entropy of the `classes`
        of a sample of regions and the smooth L1 distance of the shifts of those with objects, through the size of the
        sample (`boxes`).
        """
        return self.sampled_losses(found, targets, size)[0]

    def sampled_losses(
        self, found: Predictions, targets: Targets, size: Sequence[int]
    ) -> tuple[dict[str, pdl.Tensor], pdl.Tensor, pdl.Tensor]:
        """The parts of the loss and the sample: regions [N, R, 4], those with objects first, and the row [N, R] of the
        targets that each is to find, -1 for the background, -2 where there is no region."""
        proposals, used = self.rpn.propose(found.shifted, size, self.training_proposals)
        regions, truth = self.sample(proposals, used, targets)
        logits, shifts = self.read(found.maps, regions, truth > -2)
        parts = self.rpn.loss(found.shifted, targets) | self.region_loss(logits, shifts, regions, truth, targets)
        return parts, regions, truth

    def sample(self, proposals: pdl.Tensor, used: pdl.Tensor, targets: Targets) -> tuple[pdl.Tensor, pdl.Tensor]:
        """Regions and truth as in `sampled_losses`, from proposals [N, P, 4], of which `used` [N, P] are some, and the
        targets' own boxes."""
        boxes = pdl.concat([proposals, targets.boxes], axis=1)
        used = pdl.concat([used, targets.labels >= 0], axis=1)
        index = max_iou_assign(boxes, targets.boxes, targets.labels, positive=0.5, negative=0.5, best=False)
        index = pdl.where(used, index, -2)
        index = sample_assigned(index, _seed(self.training), count=self.regions, positive_share=OBJECTS)
        at, truth = _kept(index, self.regions)
        return rows_at(boxes, at), truth

    def region_loss(
        self, logits: pdl.Tensor, shifts: pdl.Tensor, regions: pdl.Tensor, truth: pdl.Tensor, targets: Targets
    ) -> dict[str, pdl.Tensor]:
        """`classes` and `boxes` of what `read` says of a sample."""
        object_, count = truth >= 0, _count(truth > -2)
        label = pdl.where(object_, take_assigned(targets.labels, truth) + 1, pdl.where(truth > -2, 0, IGNORED))
        own = pdl.reshape(pdl.where(object_, label, -1), (-1, 1))
        shift = pdl.reshape(rows_at(pdl.reshape(shifts, (-1, *shifts.shape[2:])), own), regions.shape)
        regions = pdl.where(object_[..., None], regions, np.array([0, 0, 1, 1], np.float32))  # others may have no area
        wanted = pdl.box_encode(regions, take_assigned(targets.boxes, truth), weights=ROIS)
        return {
            "classes": pdl.cross_entropy(logits, label, ignore_index=IGNORED, reduction="sum") / count,
            "boxes": _distance(shift, wanted, object_) / count,
        }


TASK = "detection"
V2 = {"norm": True, "rpn_depth": 2, "convs": 4, "linears": 1}
_MOBILE: dict[str, Any] = {
    "_target_": "pdl_cv.FasterRCNN",
    "backbone": {
        "_target_": "pdl_cv.models.pyramids.Taps",
        "net": {"_target_": "pdl_cv.MobileNetV3", "eps": 1e-5},
        "after": ("features.13", "features.16"),
    },
    "anchor_sizes": ((32, 64, 128, 256, 512),) * 3,
    "proposal_score": 0.05,
}
VARIANTS: dict[str, dict[str, Any]] = {
    "fasterrcnn_resnet50_fpn": {"_target_": "pdl_cv.FasterRCNN"},
    "fasterrcnn_resnet50_fpn_v2": {"_target_": "pdl_cv.FasterRCNN", **V2},
    "fasterrcnn_mobilenet_v3_large_fpn": _MOBILE,
    "fasterrcnn_mobilenet_v3_large_320_fpn": {**_MOBILE, "proposals": 150},
}

#: names of torchvision's state dicts, old and new, and ours
NAMES: list[tuple[str, Any]] = [
    (r"^backbone\.fpn\.(\w+\.\d)\.(weight|bias)", r"pyramid.\1.0.\2"),
    (r"^backbone\.fpn\.", "pyramid."),
    (r"^rpn\.head\.conv\.(weight|bias)", r"rpn.conv.0.0.\1"),
    (r"^rpn\.head\.", "rpn."),
    (r"^roi_heads\.box_head\.(?:fc6|5)\.", "box_head.linears.0."),
    (r"^roi_heads\.box_head\.fc7\.", "box_head.linears.1."),
    (r"^roi_heads\.box_head\.", "box_head.convs."),
    (r"^roi_heads\.mask_head\.", "mask_head."),
    (r"^mask_head\.mask_fcn(\d)\.", lambda found: f"mask_head.{int(found[1]) - 1}.0."),
    (r"^roi_heads\.\w+_predictor\.", ""),
]


def remap(model: FasterRCNN, state: Mapping[str, Any]) -> dict[str, Any]:
    """A torchvision state dict (arrays by name) in pdl's names and layouts."""
    body = "backbone.net.features." if hasattr(model.backbone.net, "features") else "backbone.net."
    found = substituted(state, [(r"^backbone\.body\.", body), *NAMES])
    first = "box_head.linears.0.weight"
    if first in found:  # its columns: channels, rows, columns there, rows, columns, channels here
        weight, size = np.asarray(found[first]), model.region_size
        cells = weight.reshape(len(weight), -1, size, size).transpose(0, 2, 3, 1)
        found[first] = cells.reshape(len(weight), -1)
    return nn.from_torch(model, found)
