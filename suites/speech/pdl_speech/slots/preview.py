"""Orders as training hears them: each with its slots, its file, and versions of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pdl.data import Dataset, sample_name
from pdl_speech.classification.preview import AudioClassificationPreviewer, Cell
from pdl_speech.slots.metrics import worded
from pdl_speech.spectra import picture

if TYPE_CHECKING:
    from pdl_speech.slots.task import SlotFilling


class SlotPreviewer(AudioClassificationPreviewer):
    """As of classes of recordings."""

    task: SlotFilling  # type: ignore[assignment]

    def _original(self, dataset: Dataset, index: int, rate: int) -> Cell:
        sample = dataset[index]
        about = f"{worded(sample['slots'], self.task.slots)}, {sample_name(dataset, index)}"
        return picture(sample["audio"], rate), f"{about}, {len(sample['audio']) / rate:.2f} s"
