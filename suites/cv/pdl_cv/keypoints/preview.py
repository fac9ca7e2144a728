"""Objects with their points as training sees them: the part of the image, versions of it, and what evaluation sees."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data import DataLoader, Sample
from pdl.data.transforms.numeric import displayed
from pdl.report.answers import rendered
from pdl.runtime.drawing import Drawing
from pdl.train import Look, SamplePreviewer
from pdl_cv.classification.report import small
from pdl_cv.keypoints.report import as_answer
from pdl_cv.steps.keypoints import posed

if TYPE_CHECKING:
    from pdl_cv.keypoints.task import Keypoints

SIDE = 240  # pixels of an image on the page, at most about so many


class KeypointPreviewer(SamplePreviewer):
    """Objects, as they are cut out of their images, with their points."""

    task: Keypoints

    def opened(self, dataset: Any, look: Look) -> tuple[Any, DataLoader | None, DataLoader]:
        _, training, evaluation = super().opened(dataset, look)
        return evaluation.dataset, training, evaluation

    def drawn(self, sample: Sample, dataset: Any, steps: Sequence[Any]) -> np.ndarray:
        skeleton = [(int(a), int(b)) for a, b in self.task.skeleton or ()]
        points = np.reshape(sample["keypoints"], (-1, 3))  # of one object, whether or not it has an axis for objects
        marks = posed(as_answer(points), skeleton, 0.5)
        return small(rendered(Drawing(displayed(sample["image"], steps), marks=marks)), SIDE)
