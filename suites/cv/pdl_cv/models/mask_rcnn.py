"""Mask R-CNN: He, Gkioxari, Dollar, Girshick, Mask R-CNN, ICCV 2017 (arXiv 1703.06870): Faster R-CNN with a third
answer, the mask of each object. Nets and conventions are torchvision's.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar

import pdl
from pdl import nn
from pdl.errors import DataError
from pdl.hints import Inherited
from pdl.nn.blocks import Chain, ConvNorm, initialise
from pdl_cv.models import faster_rcnn
from pdl_cv.models.blocks import take_pretrained
from pdl_cv.models.detector import Detections, Targets
from pdl_cv.models.faster_rcnn import OBJECTS, FasterRCNN, Predictions, Width
from pdl_cv.models.pyramids import image_numbers
from pdl_cv.ops import take_assigned


class MaskRCNN(FasterRCNN):
    """Images [N, H, W, 3] -> boxes of `num_classes` classes, each with its mask.

    mask_size      cells a side of a mask, an even number: twice as many as are read from the pyramid
    mask_convs     3 x 3 convolutions of the net that makes masks, each with `mask_channels`
    The other arguments are those of `FasterRCNN`.
    """

    head: ClassVar[str | tuple[str, ...]] = ("cls_score", "bbox_pred", "mask_fcn_logits")

    def __init__(
        self,
        num_classes: Width = 90,
        *,
        mask_size: Width = 28,
        mask_convs: Width = 4,
        mask_channels: Width = 256,
        pretrained: str | None = None,
        **options: Inherited,
    ) -> None:
        super().__init__(num_classes, **options)
        self.mask_size = mask_size
        widths = [self.pyramid.channels, *[mask_channels] * mask_convs]
        self.mask_head = Chain(*(_conv(a, b, self.pyramid.norm) for a, b in pairwise(widths)))
        self.conv5_mask = nn.ConvTranspose2d(mask_channels, mask_channels, 2, stride=2)
        self.mask_fcn_logits = nn.Conv2d(mask_channels, num_classes + 1, 1)
        for module in (self.mask_head, self.conv5_mask, self.mask_fcn_logits):
            initialise(module)
        take_pretrained(self, pretrained)

    def detections(self, found: Predictions, size: Sequence[int]) -> Detections:
        """The objects found, masks included."""
        chosen = super().detections(found, size)
        return chosen._replace(masks=pdl.sigmoid(self.mask_logits(found.maps, chosen.boxes, chosen.labels)))

    def mask_logits(self, maps: Sequence[pdl.Tensor], boxes: pdl.Tensor, labels: pdl.Tensor) -> pdl.Tensor:
        """Logits [N, K, m, m] of the masks of boxes [N, K, 4] that belong to classes labels [N, K]; 0 where that is
        -1."""
        x = self.mask_head(self.features(maps, boxes, labels >= 0, self.mask_size // 2))
        x = pdl.relu(self.conv5_mask(x))
        # of every box the logits of one class: the weights of that class are picked, before they are applied
        rows = pdl.reshape(pdl.where(labels >= 0, labels + 1, -1), (labels.size,))
        last = self.mask_fcn_logits
        weight = pdl.segment_take(pdl.matrix_transpose(pdl.reshape(last.weight, last.weight.shape[2:])), rows)
        bias = pdl.segment_take(last.get_parameter("bias"), rows)
        cells = pdl.reshape(x, (x.shape[0], -1, x.shape[3]))
        logits = pdl.matmul(cells, weight[..., None])[..., 0] + bias[:, None]
        return pdl.reshape(logits, (*labels.shape, self.mask_size, self.mask_size))

    def losses(self, found: Predictions, targets: Targets, size: Sequence[int]) -> dict[str, pdl.Tensor]:
        """The parts of `FasterRCNN.losses`, and the mean binary cross-entropy of the masks of regions with objects."""
        if targets.masks is None:
            raise DataError("MaskRCNN: the targets have no masks; the task instance gives them")
        parts, regions, truth = self.sampled_losses(found, targets, size)
        most = math.ceil(OBJECTS * self.regions)  # those with objects come first
        regions, truth = regions[:, :most], truth[:, :most]
        labels = pdl.where(truth >= 0, take_assigned(targets.labels, truth), -1)
        logits = self.mask_logits(found.maps, regions, labels)
        wanted = self.mask_targets(targets.masks, regions, truth)
        error = pdl.binary_cross_entropy_with_logits(logits, wanted, reduction="none")
        object_ = truth >= 0
        cells = pdl.maximum(pdl.sum(object_.astype(pdl.float32)), 1.0) * self.mask_size**2
        return parts | {"masks": pdl.sum(pdl.where(object_[..., None, None], error, 0.0)) / cells}

    def mask_targets(self, masks: pdl.Tensor, regions: pdl.Tensor, truth: pdl.Tensor) -> pdl.Tensor:
        """What the masks [N, M, H, W] named by truth [N, R] have in regions [N, R, 4]: float32 [N, R, m, m]; 0 where
        truth is negative. Cells are read at their centres, where answers put them back; torchvision's training reads
        them half a pixel off, which matters for objects of a few pixels."""
        n, m, *size = masks.shape
        index = pdl.where(truth >= 0, truth + m * image_numbers(truth), -1)
        found = pdl.roi_align(
            pdl.reshape(masks, (n * m, *size, 1)).astype(pdl.float32), pdl.reshape(regions, (-1, 4)),
            pdl.reshape(index, (-1,)), size=(self.mask_size, self.mask_size),
        )  # fmt: skip
        return pdl.reshape(found, (*truth.shape, self.mask_size, self.mask_size))


def _conv(in_channels: int, channels: int, norm: bool) -> nn.Module:
    if norm:
        return ConvNorm(in_channels, channels)
    return nn.Sequential(nn.Conv2d(in_channels, channels, 3, padding=1), nn.ReLU())


TASK = "instance"
VARIANTS: dict[str, dict[str, Any]] = {
    "maskrcnn_resnet50_fpn": {"_target_": "pdl_cv.MaskRCNN"},
    "maskrcnn_resnet50_fpn_v2": {"_target_": "pdl_cv.MaskRCNN", **faster_rcnn.V2},
}


def remap(model: MaskRCNN, state: Mapping[str, Any]) -> dict[str, Any]:
    """A torchvision state dict (arrays by name) in pdl's names and layouts."""
    return faster_rcnn.remap(model, state)
