"""Orders as training hears them: each with its slots, its file, and versions of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pdl.data import Sample
from pdl_speech.classification.preview import AudioClassificationPreviewer
from pdl_speech.slots.metrics import worded

if TYPE_CHECKING:
    from pdl_speech.slots.task import SlotFilling


class SlotPreviewer(AudioClassificationPreviewer):
    """As of classes of recordings."""

    task: SlotFilling  # type: ignore[assignment]

    def about(self, sample: Sample, dataset: Any) -> str:
        return worded(sample["slots"], self.task.slots)
