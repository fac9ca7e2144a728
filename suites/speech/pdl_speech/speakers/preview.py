"""Recordings as training hears them: each with its speaker, its file, and versions of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pdl.data import Sample
from pdl_speech.classification.preview import AudioClassificationPreviewer

if TYPE_CHECKING:
    from pdl_speech.speakers.task import SpeakerVerification


class SpeakerPreviewer(AudioClassificationPreviewer):
    """As of classes of recordings."""

    task: SpeakerVerification  # type: ignore[assignment]

    def about(self, sample: Sample, dataset: Any) -> str:
        name: str = dataset.classes[int(sample["label"])]
        return name
