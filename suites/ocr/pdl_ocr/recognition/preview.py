"""Lines as training sees them: each with its text, its file, and versions of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data import Sample
from pdl.data.transforms.numeric import displayed
from pdl.train import TextPreviewer

if TYPE_CHECKING:
    from pdl_ocr.recognition.task import TextRecognition


class RecognitionPreviewer(TextPreviewer):
    """Lines with their texts."""

    task: TextRecognition
    title = "Lines"
    note = "Normalize is undone."
    exact = "Epoch by epoch, a training with this seed distorts lines in ways like these."

    def drawn(self, sample: Sample, dataset: Any, steps: Sequence[Any]) -> np.ndarray:
        return displayed(sample["image"], steps)
