"""What the report says of a classifier of videos."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data import Sample
from pdl.report import Section
from pdl.train import Evaluation
from pdl_cv.classification.report import ClassificationReporter
from pdl_cv.video.clips import picture

if TYPE_CHECKING:
    from pdl_cv.video.task import VideoClassification


class VideoReporter(ClassificationReporter):
    """That of classification, with frames of the clips of the worst mistakes."""

    task: VideoClassification

    def sections(self, evaluation: Evaluation, dataset: Any) -> list[Section]:
        self.dataset = dataset
        return super().sections(evaluation, dataset)

    def picture(self, sample: Sample) -> np.ndarray:
        return picture(sample, self.dataset)
