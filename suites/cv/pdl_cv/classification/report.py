"""What the report says of a classifier: accuracy by class, confusions, worst mistakes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data import Dataset, sample_name
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
            made.append(Section("Worst mistakes", figure_grid(_figure(each, dataset, classes) for each in mistakes)))
        return made


def _figure(mistake: Mistake, dataset: Dataset, classes: Sequence[str]) -> tuple[np.ndarray, str]:
    name = sample_name(dataset, mistake.index)
    caption = f"{classes[mistake.label]} taken for {classes[mistake.predicted]} ({mistake.p:.0%}), {name}"
    return small(dataset[mistake.index]["image"]), caption


def small(image: np.ndarray, most: int = 160) -> np.ndarray:
    """The image at no more than about `most` pixels a side, by leaving out rows and columns."""
    stride = max(1, -(-max(image.shape[:2]) // most))
    return np.ascontiguousarray(image[::stride, ::stride])
