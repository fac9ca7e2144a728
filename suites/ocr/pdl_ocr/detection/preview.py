"""Pages as training sees them: with their lines, versions of them with their maps, and what evaluation sees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data import Sample
from pdl.data.transforms.numeric import displayed
from pdl.train import SamplePreviewer
from pdl_ocr.data.polygons import split_points
from pdl_ocr.detection.drawing import GRAY, GREEN, page

if TYPE_CHECKING:
    from pdl_ocr.detection.task import TextDetection


class DetectionPreviewer(SamplePreviewer):
    """Pages with their lines, or with the maps of what is learned."""

    task: TextDetection
    needs_model = True  # which knows the form of the maps
    title = "Pages"
    note = (
        "Normalize is undone. Inner parts of lines, which are learned, are green; what is left out, because it is "
        "unreadable, tiny or mostly outside, is gray."
    )

    def drawn(self, sample: Sample, dataset: Any, steps: Sequence[Any]) -> np.ndarray:
        image = displayed(np.asarray(sample["image"]), steps)
        image = np.repeat(image, 3, axis=2) if image.shape[2] == 1 else image.copy()
        if "maps" not in sample:
            corners = sample["corners"]
            polygons = split_points(sample["points"][: int(corners.sum())], corners)  # without corners of the page
            groups = ((GRAY, True), (GREEN, False))
            return page(image, [
                ([p for p, no in zip(polygons, sample["ignored"], strict=True) if no == left], colour)
                for colour, left in groups
            ])  # fmt: skip
        cell = self.task.coding.cell
        large = sample["maps"][..., :2].repeat(cell, axis=0).repeat(cell, axis=1)[: len(image), : image.shape[1]]
        for mask, colour in ((large[..., 1] == 0, GRAY), (large[..., 0] > 0, GREEN)):
            image[mask] = (image[mask] + np.array(colour)) // 2
        return page(image, [])

    def about(self, sample: Sample, dataset: Any) -> str:
        return f"{np.count_nonzero(~np.asarray(sample['ignored'], bool))} lines"
