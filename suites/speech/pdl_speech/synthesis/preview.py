"""Recordings as training hears them: spectra, pitch and text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data import Sample
from pdl.dtype import Array
from pdl_speech.recognition.preview import RecognitionPreviewer
from pdl_speech.spectra import of_features
from pdl_speech.synthesis.loader import octaves_of

if TYPE_CHECKING:
    from pdl_speech.synthesis.task import SpeechSynthesis

LINE = (120, 255, 160)
OCTAVES = 6.0, 9.0  # from the lowest row to the highest


class SynthesisPreviewer(RecognitionPreviewer):
    """Recordings with their texts, by their mel energies, with the pitch drawn in."""

    task: SpeechSynthesis  # type: ignore[assignment]
    needs_model = True  # which has the front end
    title = "Recordings"
    note = "ln mel energies, low bands below; the line is the pitch, 64 Hz at the bottom and 512 Hz at the top."

    def drawn(self, sample: Sample, dataset: Any, steps: Sequence[Any]) -> Array:
        wave = sample["audio"][: sample.get("samples")]  # without what fills it up
        mel = self.task.listen(wave)
        return with_pitch(of_features(mel, most=len(mel)), octaves_of(wave, self.task.front))

    def about(self, sample: Sample, dataset: Any) -> str:
        return self.task.clean(sample["text"]).strip()


def with_pitch(image: Array, octaves: Array) -> Array:
    """An image uint8 [H, frames, 3] with a line at the pitch of each frame, octaves above 1 Hz."""
    made, (low, high) = image.copy(), OCTAVES
    if np.isfinite(octaves).all():
        rows = np.clip((high - octaves) / (high - low) * (len(image) - 1), 0, len(image) - 1).round().astype(int)
        for thick in (0, 1):
            made[np.minimum(rows + thick, len(image) - 1), np.arange(image.shape[1])] = LINE
    return made
