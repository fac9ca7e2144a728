"""Pairs as training sees them: the originals, versions of them, and what evaluation sees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data import Sample
from pdl.data.transforms.numeric import displayed
from pdl.train import SamplePreviewer
from pdl_cv.classification.report import small
from pdl_cv.steps.pictures import as_pixels, grid

if TYPE_CHECKING:
    from pdl_cv.image_to_image.task import ImageToImage

SIDE = 200  # pixels of an image on the page, at most about so many


class ImageToImagePreviewer(SamplePreviewer):
    """Pairs, image and picture side by side."""

    task: ImageToImage

    def drawn(self, sample: Sample, dataset: Any, steps: Sequence[Any]) -> np.ndarray:
        picture = sample["picture"]
        pair = displayed(sample["image"], steps), picture if picture.dtype == np.uint8 else as_pixels(picture)
        return np.asarray(grid([[small(np.ascontiguousarray(each), SIDE) for each in pair]]))
