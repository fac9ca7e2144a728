"""What the report says of a net that tells voices apart: curves over all thresholds, scores, speakers, worst trials."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pdl.data import Dataset
from pdl.dtype import Array
from pdl.report import Section
from pdl.train import Evaluation, Reporter
from pdl.train.sections import of_trials
from pdl_speech.data.recordings import rate_of
from pdl_speech.speakers.check import CALLED
from pdl_speech.spectra import picture

if TYPE_CHECKING:
    from pdl_speech.speakers.task import SpeakerVerification


class SpeakerReporter(Reporter):
    """ROC and DET curves, the scores of both kinds of trials, the hardest speakers, the worst trials."""

    task: SpeakerVerification

    def sections(self, evaluation: Evaluation, dataset: Any) -> list[Section]:
        return of_trials(evaluation, dataset, CALLED, _drawn, self.task.mistakes)


def _drawn(dataset: Dataset, index: int) -> Array:
    return picture(dataset[index]["audio"], rate_of(dataset))
