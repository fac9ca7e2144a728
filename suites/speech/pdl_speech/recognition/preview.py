"""Sounds as training hears them: each with its text, its file, and versions of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data import DataLoader, Dataset, Few, sample_name
from pdl.data.pipeline import Pipeline
from pdl.report import Section, image_table
from pdl.train import Look, Previewer
from pdl_speech.data.recordings import rate_of
from pdl_speech.recognition.loader import sound_of
from pdl_speech.spectra import of_features, picture

if TYPE_CHECKING:
    from pdl_speech.recognition.task import SpeechRecognition


class RecognitionPreviewer(Previewer):
    """A row for each sound: the original, as the first epochs hear it, and as evaluation hears it."""

    task: SpeechRecognition
    needs_model = False

    def sections(self, dataset: Any, look: Look) -> list[Section]:
        if not isinstance(dataset, Dataset):
            return super().sections(dataset, look)
        few, rate = Few(dataset, look.samples), rate_of(dataset)
        seen = [self._shown(few, look, epoch, rate) for epoch in range(look.versions)] if look.training else []
        columns = [*seen, self._shown(few, look, None, rate)]
        head = ["original", *(f"epoch {epoch}" for epoch in range(len(seen))), "evaluation"]
        lines = []
        for row in range(len(few)):
            sample = few[row]
            sound = sound_of(sample)[1]
            name = f"{sample['text']}, {sample_name(dataset, int(few.indices[row]))}, {len(sound) / rate:.2f} s"
            lines.append([(drawn(sound, rate), name), *(each.get(row) for each in columns)])
        said = "Power in dB, low frequencies below, and the waveform's envelope; or features, the first one below."
        return [Section("Utterances", f"<p>{said}</p>{image_table(lines, head=head)}")]

    def _shown(self, few: Few, look: Look, epoch: int | None, rate: int) -> dict[int, tuple[np.ndarray, str]]:
        """The sounds by number as an epoch hears them; None: as evaluation does."""
        loader: DataLoader = self.task.loader(few, self.recipe, training=False, seed=look.seed)
        if epoch is not None:
            loader.pipeline = Pipeline(self.recipe.data.transforms(training=True))
            loader.set_epoch(epoch)
        return {
            int(index): (drawn(sound[:count], rate), "")
            for batch in loader
            for sound, count, index in zip(batch["audio"], batch["samples"], batch["index"], strict=True)
        }


def drawn(sound: np.ndarray, rate: int) -> np.ndarray:
    """A waveform's spectrogram, or features, as an image."""
    return picture(sound, rate) if sound.ndim == 1 else of_features(sound)
