"""Recordings as training hears them: each with its label, its file, and versions of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data import Sample
from pdl.train import SamplePreviewer
from pdl_speech.data.recordings import rate_of
from pdl_speech.spectra import picture

if TYPE_CHECKING:
    from pdl_speech.classification.task import AudioClassification


class AudioClassificationPreviewer(SamplePreviewer):
    """Spectrograms of recordings with their classes."""

    task: AudioClassification
    note = "Power in dB, low frequencies below, and the waveform's envelope."

    def drawn(self, sample: Sample, dataset: Any, steps: Sequence[Any]) -> np.ndarray:
        return picture(sample["audio"][: sample.get("samples")], rate_of(dataset))  # without what fills it up

    def about(self, sample: Sample, dataset: Any) -> str:
        return self.task.classes[int(sample["label"])]

    def extent(self, sample: Sample, dataset: Any) -> str:
        return f"{len(sample['audio']) / rate_of(dataset):.2f} s"
