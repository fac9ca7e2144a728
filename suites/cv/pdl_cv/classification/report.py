"""What the report says of a classifier: accuracy by class, confusions, worst mistakes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data import Dataset, Sample, sample_name
from pdl.report import Section, figure_grid
from pdl.train import Evaluation, Reporter
from pdl.train.metrics import Mistake
from pdl.train.sections import of_classes

if TYPE_CHECKING:
    from pdl_cv.classification.task import Classification


class ClassificationReporter(Reporter):
    """Classes, confusions, curves over all thresholds, calibration, and the worst mistakes with their images."""

    task: Classification

    def sections(self, evaluation: Evaluation, dataset: Any) -> list[Section]:
        classes = self.task.classes
        made = of_classes(evaluation, classes)
        mistakes: list[Mistake] = evaluation.details["mistakes"]
        if mistakes and isinstance(dataset, Dataset):
            figures = ((self.picture(dataset[each.index]), _said(each, dataset, classes)) for each in mistakes)
            made.append(Section("Worst mistakes", figure_grid(figures)))
        return made

    def picture(self, sample: Sample) -> np.ndarray:
        """A sample to look at, uint8 [H, W, C]."""
        return small(sample["image"])


def _said(mistake: Mistake, dataset: Dataset, classes: Sequence[str]) -> str:
    name = sample_name(dataset, mistake.index)
    return f"{classes[mistake.label]} taken for {classes[mistake.predicted]} ({mistake.p:.0%}), {name}"


def small(image: np.ndarray, most: int = 160) -> np.ndarray:
    """The image at no more than about `most` pixels a side, by leaving out rows and columns."""
    stride = max(1, -(-max(image.shape[:2]) // most))
    return np.ascontiguousarray(image[::stride, ::stride])
