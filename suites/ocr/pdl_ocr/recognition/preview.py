"""Lines as training sees them: each with its text, its file, and versions of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data import DataLoader, Few, Sample, sample_name
from pdl.data.pipeline import Pipeline
from pdl.data.transforms.numeric import displayed
from pdl.train import Look, SamplePreviewer

if TYPE_CHECKING:
    from pdl_ocr.recognition.task import TextRecognition


class RecognitionPreviewer(SamplePreviewer):
    """Lines with their texts."""

    task: TextRecognition
    title = "Lines"
    note = "Normalize is undone."
    exact = "Epoch by epoch, a training with this seed distorts lines in ways like these."

    def opened(self, dataset: Any, look: Look) -> tuple[Any, DataLoader | None, DataLoader]:
        """Of a few lines, for loaders look at the width of each; training, too, shows those that it would skip."""
        few = Few(dataset, look.samples)
        training, evaluation = (self.loader(few, look, training=False) for _ in range(2))
        training.pipeline = Pipeline(self.recipe.data.transforms(training=True))
        return few, training if look.training else None, evaluation

    def drawn(self, sample: Sample, dataset: Any, steps: Sequence[Any]) -> np.ndarray:
        return displayed(sample["image"], steps)

    def about(self, sample: Sample, dataset: Any) -> str:
        return str(sample["text"])

    def name(self, dataset: Any, index: int) -> str:
        return sample_name(dataset.dataset, int(dataset.indices[index]))
