"""Sounds as training hears them: each with its text, its file, and versions of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data import Sample
from pdl.train import TextPreviewer
from pdl_speech.data.recordings import rate_of
from pdl_speech.recognition.loader import sound_of
from pdl_speech.spectra import of_features, picture

if TYPE_CHECKING:
    from pdl_speech.recognition.task import SpeechRecognition


class RecognitionPreviewer(TextPreviewer):
    """Sounds with their texts."""

    task: SpeechRecognition
    title = "Utterances"
    note = "Power in dB, low frequencies below, and the waveform's envelope; or features, the first one below."
    exact = "Epoch by epoch, a training with this seed changes sounds in ways like these."

    def drawn(self, sample: Sample, dataset: Any, steps: Sequence[Any]) -> np.ndarray:
        return drawn(sound_of(sample)[1][: sample.get("samples")], rate_of(dataset))  # without what fills it up

    def extent(self, sample: Sample, dataset: Any) -> str:
        return f"{len(sound_of(sample)[1]) / rate_of(dataset):.2f} s"


def drawn(sound: np.ndarray, rate: int) -> np.ndarray:
    """A waveform's spectrogram, or features, as an image."""
    return picture(sound, rate) if sound.ndim == 1 else of_features(sound)
