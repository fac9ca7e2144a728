"""What the report says of a classifier of recordings: accuracy by class, confusions, worst mistakes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data import Dataset, sample_name
from pdl.report import Section, figure_grid
from pdl.train import Evaluation, Reporter
from pdl.train.metrics import Mistake
from pdl.train.sections import of_classes
from pdl_speech.data.recordings import rate_of
from pdl_speech.spectra import picture

if TYPE_CHECKING:
    from pdl_speech.classification.task import AudioClassification


class AudioClassificationReporter(Reporter):
    """Classes, confusions, curves over all thresholds, calibration, and the spectrograms of the worst mistakes."""

    task: AudioClassification

    def sections(self, evaluation: Evaluation, dataset: Any) -> list[Section]:
        classes = self.task.classes
        made = of_classes(evaluation, classes)
        mistakes: list[Mistake] = evaluation.details["mistakes"]
        if mistakes and isinstance(dataset, Dataset):
            made.append(Section("Worst mistakes", figure_grid(_figure(each, dataset, classes) for each in mistakes)))
        return made


def _figure(mistake: Mistake, dataset: Any, classes: Sequence[str]) -> tuple[np.ndarray, str]:
    name = sample_name(dataset, mistake.index)
    caption = f"{classes[mistake.label]} taken for {classes[mistake.predicted]} ({mistake.p:.0%}), {name}"
    return picture(dataset[mistake.index]["audio"], rate_of(dataset)), caption
