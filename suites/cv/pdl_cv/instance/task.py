"""The task of instance segmentation: detection with a mask for each object."""

from __future__ import annotations

from typing import Any

import numpy as np

from pdl.runtime.frame import Frame
from pdl.train import Metric
from pdl.train.metrics import Shown
from pdl_cv.detection.metrics import BoxAP, MaskAP
from pdl_cv.detection.overlaps import Runs
from pdl_cv.detection.task import Detection
from pdl_cv.instance.metrics import MaskDice, MaskMatches
from pdl_cv.models.detector import Detections
from pdl_cv.steps.masks import pasted


class InstanceSegmentation(Detection):
    """Objects with their masks: arguments, samples and models are those of `pdl_cv.Detection`, samples with `masks`
    uint8 [n, H, W] of 0 and 1, models such as `pdl_cv.MaskRCNN`.

    Measured are the average precision of the masks, that of the boxes ("box_AP", ...), masks matched one to one as in
    microscopy (`pdl_cv.instance.metrics.MaskMatches`), and Dice.
    """

    masks = True

    def metrics(self) -> dict[str, Metric]:
        masks = Shown.all(MaskAP(self.classes, protocol=self.protocol))
        boxes = Shown.all(BoxAP(self.classes, protocol=self.protocol))
        named = {f"box_{name}": each for name, each in boxes.items()}
        return {**masks, **named, "matched": MaskMatches(), "dice": MaskDice()}

    def in_original(self, found: Detections, i: int, frame: Frame) -> dict[str, Any]:
        assert found.masks is not None
        boxes, grids = np.asarray(found.boxes.data[i], np.float64), np.asarray(found.masks.data[i], np.float32)
        corners = boxes.reshape(-1, 2, 2) * frame.scale + frame.offset
        kept = np.flatnonzero(np.asarray(found.labels.data[i]) >= 0)
        masks = [pasted(grids[k], corners[k].reshape(4), frame) for k in kept]
        stacked = np.stack(masks) if masks else np.zeros((0, frame.height, frame.width), np.uint8)
        return {**super().in_original(found, i, frame), "masks": Runs.of(stacked)}
