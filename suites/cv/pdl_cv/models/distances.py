"""Boxes as distances from a point to their four sides, each predicted as a distribution, and detectors that learn by
the alignment of class and place: what PicoDet and PP-YOLOE share.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np

import pdl
from pdl_cv.models.detector import Detector, Targets
from pdl_cv.models.points import Points
from pdl_cv.ops import class_targets, take_assigned, task_aligned_assign

#: weights of the losses of boxes and of distributions
BOX, DISTANCE = 2.5, 0.5


@dataclass(frozen=True)
class Distances:
    """Distances from a point to the left, upper, right and lower side of a box, in strides (Li et al., arXiv
    2006.04388).

    bins    a distance is a distribution over 0, 1, ..., bins - 1
    margin  how far below the last of them targets stay
    """

    bins: int
    margin: float

    def boxes(self, logits: pdl.Tensor, points: Points) -> pdl.Tensor:
        """Logits [N, A, 4 bins] -> boxes [N, A, 4] in pixels, at the mean of each distribution."""
        shares = pdl.softmax(self._sides(logits), axis=3)
        away = pdl.sum(shares * np.arange(self.bins, dtype=np.float32), axis=3) * points.stride[:, None]
        return pdl.concat([points.at - away[..., :2], points.at + away[..., 2:]], axis=2)

    def targets(self, boxes: pdl.Tensor, points: Points) -> pdl.Tensor:
        """The distances [N, A, 4] of boxes [N, A, 4] in strides, within the bins."""
        away = pdl.concat([points.at - boxes[..., :2], boxes[..., 2:] - points.at], axis=2)
        return pdl.clip(away / points.stride[:, None], 0.0, self.bins - 1 - self.margin)

    def loss(self, logits: pdl.Tensor, boxes: pdl.Tensor, points: Points) -> pdl.Tensor:
        """Distribution focal loss [N, A] of logits where boxes [N, A, 4] are wanted: the mean over the four sides."""
        return pdl.mean(pdl.distribution_focal_loss(self._sides(logits), self.targets(boxes, points)), axis=2)

    def _sides(self, logits: pdl.Tensor) -> pdl.Tensor:
        n, count = logits.shape[:2]
        return pdl.reshape(logits, (n, count, 4, self.bins))


class Predictions(NamedTuple):
    """What the last layers say of all points.

    scores     [N, A, C], 0..1
    distances  logits [N, A, 4 bins]
    points     the cells
    varifocal  the varifocal loss [N, A, C] for scores [N, A, C] that are wanted (Zhang et al., arXiv 2008.13367)
    """

    scores: pdl.Tensor
    distances: pdl.Tensor
    points: Points
    varifocal: Callable[[pdl.Tensor], pdl.Tensor]


class DistanceDetector(Detector):
    """A detector without anchor boxes, whose `predictions` are `Predictions`."""

    distances: ClassVar[Distances]

    def decoded(self, found: Predictions, size: Sequence[int]) -> tuple[pdl.Tensor, pdl.Tensor]:
        """Boxes [N, A, 4] and scores [N, A, C]."""
        return self.distances.boxes(found.distances, found.points), found.scores

    def losses(self, found: Predictions, targets: Targets, size: Sequence[int]) -> dict[str, pdl.Tensor]:
        """class: varifocal loss; box: 1 - GIoU; distance: distribution focal loss.

        Predictions are assigned to objects by the alignment of their scores and boxes; each is to score its alignment,
        and by this its box and distances are weighted. All are divided by the sum of wanted scores, over the batch.
        """
        scores, distances, points, varifocal = found
        boxes = self.distances.boxes(distances, points)
        index, quality = task_aligned_assign(
            points.at, boxes.detach(), scores.detach(), targets.boxes, targets.labels, k=13, alpha=1.0, beta=6.0
        )
        classes = class_targets(index, targets.labels, num_classes=scores.shape[2], quality=quality)
        wanted = take_assigned(targets.boxes, index)
        total = pdl.maximum(pdl.sum(quality), 1.0)
        away = pdl.box_iou_loss(boxes, wanted, kind="giou")
        return {
            "class": pdl.sum(varifocal(classes)) / total,
            "box": BOX * pdl.sum(away * quality) / total,
            "distance": DISTANCE * pdl.sum(self.distances.loss(distances, wanted, points) * quality) / total,
        }
