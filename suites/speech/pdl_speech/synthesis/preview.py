"""Recordings as training hears them: spectra, pitch and text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data import Dataset, Few, sample_name
from pdl.dtype import Array
from pdl.report import Section, image_table
from pdl.train import Look, Previewer
from pdl_speech.data.recordings import rate_of
from pdl_speech.spectra import of_features
from pdl_speech.synthesis.loader import octaves_of

if TYPE_CHECKING:
    from pdl_speech.synthesis.task import SpeechSynthesis

LINE = (120, 255, 160)
OCTAVES = 6.0, 9.0  # from the lowest row to the highest


class SynthesisPreviewer(Previewer):
    """A row for each recording: its mel energies, and the same with its pitch drawn in."""

    task: SpeechSynthesis

    def sections(self, dataset: Any, look: Look) -> list[Section]:
        if not isinstance(dataset, Dataset):
            return super().sections(dataset, look)
        few, rate, lines = Few(dataset, look.samples), rate_of(dataset), []
        for row in range(len(few)):
            sample = few[row]
            wave, text = sample["audio"], sample["text"]
            name = f"{self.task.clean(text).strip()}, {sample_name(dataset, int(few.indices[row]))}"
            mel = self.task.listen(wave)
            pitch = with_pitch(of_features(mel, most=len(mel)), octaves_of(wave, self.task.front))
            lines.append([(of_features(mel, most=len(mel)), f"{name}, {len(wave) / rate:.2f} s"), (pitch, "")])
        said = "ln mel energies, low bands below; the line is the pitch, 64 Hz at the bottom and 512 Hz at the top."
        return [Section("Recordings", f"<p>{said}</p>{image_table(lines, head=('recording', 'pitch'))}")]


def with_pitch(image: Array, octaves: Array) -> Array:
    """An image uint8 [H, frames, 3] with a line at the pitch of each frame, octaves above 1 Hz."""
    made, (low, high) = image.copy(), OCTAVES
    if np.isfinite(octaves).all():
        rows = np.clip((high - octaves) / (high - low) * (len(image) - 1), 0, len(image) - 1).round().astype(int)
        for thick in (0, 1):
            made[np.minimum(rows + thick, len(image) - 1), np.arange(image.shape[1])] = LINE
    return made
