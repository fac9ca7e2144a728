"""Sounds as training hears them: each with its text, its file, and versions of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data import DataLoader, Few, Sample, sample_name
from pdl.data.pipeline import Pipeline
from pdl.train import Look, SamplePreviewer
from pdl_speech.data.recordings import rate_of
from pdl_speech.recognition.loader import sound_of
from pdl_speech.spectra import of_features, picture

if TYPE_CHECKING:
    from pdl_speech.recognition.task import SpeechRecognition


class RecognitionPreviewer(SamplePreviewer):
    """Sounds with their texts."""

    task: SpeechRecognition
    title = "Utterances"
    note = "Power in dB, low frequencies below, and the waveform's envelope; or features, the first one below."
    exact = "Epoch by epoch, a training with this seed changes sounds in ways like these."

    def opened(self, dataset: Any, look: Look) -> tuple[Any, DataLoader | None, DataLoader]:
        """Of a few sounds, for loaders look at the length of each; training, too, shows those that it would skip."""
        few = Few(dataset, look.samples)
        training, evaluation = (self.loader(few, look, training=False) for _ in range(2))
        training.pipeline = Pipeline(self.recipe.data.transforms(training=True))
        return few, training if look.training else None, evaluation

    def drawn(self, sample: Sample, dataset: Any, steps: Sequence[Any]) -> np.ndarray:
        return drawn(sound_of(sample)[1][: sample.get("samples")], rate_of(dataset))  # without what fills it up

    def about(self, sample: Sample, dataset: Any) -> str:
        return str(sample["text"])

    def extent(self, sample: Sample, dataset: Any) -> str:
        return f"{len(sound_of(sample)[1]) / rate_of(dataset):.2f} s"

    def name(self, dataset: Any, index: int) -> str:
        return sample_name(dataset.dataset, int(dataset.indices[index]))


def drawn(sound: np.ndarray, rate: int) -> np.ndarray:
    """A waveform's spectrogram, or features, as an image."""
    return picture(sound, rate) if sound.ndim == 1 else of_features(sound)
