"""Recordings as training hears them: each with its label, its file, and versions of it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data import DataLoader, Dataset, Few, sample_name
from pdl.report import Section, table
from pdl.train import Look, Previewer
from pdl_speech.data.recordings import rate_of
from pdl_speech.spectra import picture

if TYPE_CHECKING:
    from pdl_speech.classification.task import AudioClassification

Cell = tuple[np.ndarray, str] | None


class AudioClassificationPreviewer(Previewer):
    """A row for each recording: the original, as the first epochs hear it, and as evaluation hears it."""

    task: AudioClassification
    needs_model = False

    def sections(self, dataset: Any, look: Look) -> list[Section]:
        if not isinstance(dataset, Dataset):
            return super().sections(dataset, look)
        rows, rate = Few(dataset, look.samples).indices, rate_of(dataset)
        loaders = training, evaluation = self.loaders(dataset, look)
        original = partial(self._original, dataset, rate=rate)
        said = "Power in dB, low frequencies below, and the waveform's envelope."
        shown = self.versions(look, rows, loaders, original, partial(_shown, rate=rate))
        samples = Section("Samples", f"<p>{said}</p>{shown}")
        return [samples, Section("Transforms", table(_names(training, evaluation), head=("", "in this order")))]

    def _original(self, dataset: Dataset, index: int, rate: int) -> Cell:
        sample = dataset[index]
        about = f"{self.task.classes[int(sample['label'])]}, {sample_name(dataset, index)}"
        return picture(sample["audio"], rate), f"{about}, {len(sample['audio']) / rate:.2f} s"


def _shown(loader: DataLoader, rows: Sequence[int] | np.ndarray, epoch: int, rate: int) -> dict[int, Cell]:
    """Index -> the recording of an epoch."""
    batch = loader.samples(rows, epoch)
    counts = batch.get("samples", [None] * len(batch["audio"]))  # of those that are filled up
    found = zip(batch["index"], batch["audio"], counts, strict=True)
    return {int(i): (picture(wave[:count], rate), "") for i, wave, count in found}


def _names(training: DataLoader | None, evaluation: DataLoader) -> list[tuple[str, str]]:
    """The transforms of each stage, in order."""
    stages = [] if training is None else [("train", training.pipeline.steps)]
    return [(name, repr(step)) for name, steps in [*stages, ("eval", evaluation.pipeline.steps)] for step in steps]
