"""Recordings as training hears them: each with its speaker, its file, and versions of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pdl.data import Dataset, sample_name
from pdl_speech.classification.preview import AudioClassificationPreviewer, Cell
from pdl_speech.spectra import picture

if TYPE_CHECKING:
    from pdl_speech.speakers.task import SpeakerVerification


class SpeakerPreviewer(AudioClassificationPreviewer):
    """As of classes of recordings."""

    task: SpeakerVerification  # type: ignore[assignment]

    def _original(self, dataset: Dataset, index: int, rate: int) -> Cell:
        sample = dataset[index]
        about = f"{dataset.classes[int(sample['label'])]}, {sample_name(dataset, index)}"
        return picture(sample["audio"], rate), f"{about}, {len(sample['audio']) / rate:.2f} s"
