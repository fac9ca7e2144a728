"""Images as training sees them: each with its label, its file, and versions of it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data import DataLoader, Sample
from pdl.data.transforms.numeric import displayed
from pdl.report import Section, escape, figure_grid
from pdl.train import SamplePreviewer
from pdl_cv.classification.report import small

if TYPE_CHECKING:
    from pdl_cv.classification.task import Classification

BATCHES = 2  # whole batches that are shown of a training that mixes images
MIXED = 16  # images of each
SHARE = 0.005  # of a class in a mixed label, from which on it is named


class ClassificationPreviewer(SamplePreviewer):
    """Images with their classes; then whole batches where MixUp or CutMix mix them."""

    task: Classification

    def drawn(self, sample: Sample, dataset: Any, steps: Sequence[Any]) -> np.ndarray:
        return small(displayed(sample["image"], steps))

    def about(self, sample: Sample, dataset: Any) -> str:
        return self._label(sample["label"])

    def others(self, dataset: Any, training: DataLoader | None) -> list[Section]:
        """Batches whose images and labels are mixed."""
        if training is None or not training.pipeline.mixers:
            return []
        grids = []
        for number, batch in enumerate(islice(training, BATCHES)):
            pairs = zip(batch["image"][:MIXED], batch["label"][:MIXED], strict=True)
            shown = figure_grid(
                (small(displayed(image, training.pipeline.steps)), self._label(label)) for image, label in pairs
            )
            grids.append(f"<p>{escape(f'Batch {number} of epoch 0')}</p>{shown}")
        return [Section("Mixed batches", "".join(grids))]

    def _label(self, label: Any) -> str:
        """The name of a class; of a soft label the shares, largest first."""
        shares = np.asarray(label)
        if shares.ndim == 0:
            return self.task.classes[int(shares)]
        named = [int(c) for c in np.argsort(-shares, kind="stable") if shares[c] > SHARE]
        return " + ".join(self.task.classes[c] if shares[c] > 1 - SHARE else f"{shares[c]:.2f} {self.task.classes[c]}"
                          for c in named)  # fmt: skip
