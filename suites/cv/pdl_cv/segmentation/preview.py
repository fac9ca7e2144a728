"""Images with their masks as training sees them: the original, versions of it, and what evaluation sees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data import DataLoader, Sample
from pdl.data.transforms.numeric import displayed
from pdl.report import Section, table
from pdl.train import SamplePreviewer
from pdl_cv.classification.report import small
from pdl_cv.data.segmentation import pixels_of
from pdl_cv.steps.segmentation import tinted

if TYPE_CHECKING:
    from pdl_cv.segmentation.task import Segmentation

SIDE = 240  # pixels of an image on the page, at most about so many


class SegmentationPreviewer(SamplePreviewer):
    """Images with the colours of the classes; then how many pixels each class has."""

    task: Segmentation
    note = "Normalize and ToFloat are undone. Pixels that come from outside of the image count nothing."

    def drawn(self, sample: Sample, dataset: Any, steps: Sequence[Any]) -> np.ndarray:
        return small(np.ascontiguousarray(tinted(displayed(sample["image"], steps), sample["mask"])), SIDE)

    def others(self, dataset: Any, training: DataLoader | None) -> list[Section]:
        """How many pixels each class has, where that is known without reading images."""
        if not hasattr(dataset, "annotation"):
            return []
        pixels = pixels_of(dataset)
        shares = pixels / max(1, pixels.sum())
        counts = [(name, f"{share:.2%}") for name, share in zip(self.task.classes, shares, strict=True)]
        return [Section("Classes", table(counts, head=("class", "of all pixels"), fold=30))]
