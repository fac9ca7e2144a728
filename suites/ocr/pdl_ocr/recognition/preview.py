"""Lines as training sees them: each with its text, its file, and versions of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data import DataLoader, Dataset, Few, sample_name
from pdl.data.pipeline import Pipeline
from pdl.data.transforms.numeric import displayed
from pdl.report import Section, image_table
from pdl.train import Look, Previewer

if TYPE_CHECKING:
    from pdl_ocr.recognition.task import TextRecognition


class RecognitionPreviewer(Previewer):
    """A row for each line: the original, as the first epochs see it, and as evaluation sees it."""

    task: TextRecognition

    def sections(self, dataset: Any, look: Look) -> list[Section]:
        if not isinstance(dataset, Dataset):
            return super().sections(dataset, look)
        few = Few(dataset, look.samples)
        seen = [self._shown(few, look, epoch) for epoch in range(look.versions)] if look.training else []
        columns = [*seen, self._shown(few, look, None)]
        head = ["original", *(f"epoch {epoch}" for epoch in range(len(seen))), "evaluation"]
        lines = []
        for row in range(len(few)):
            sample = few[row]
            height, width = sample["image"].shape[:2]
            name = f"{sample['text']}, {sample_name(dataset, int(few.indices[row]))}, {width}x{height}"
            lines.append([(displayed(sample["image"], ()), name), *(each.get(row) for each in columns)])
        said = (
            "<p>Normalize is undone. Epoch by epoch, a training with this seed distorts lines in ways like these.</p>"
        )
        return [Section("Lines", said + image_table(lines, head=head))]

    def _shown(self, few: Few, look: Look, epoch: int | None) -> dict[int, tuple[np.ndarray, str]]:
        """The lines by number as an epoch sees them; None: as evaluation does."""
        loader: DataLoader = self.task.loader(few, self.recipe, training=False, seed=look.seed)
        if epoch is not None:
            loader.pipeline = Pipeline(self.recipe.data.transforms(training=True))
            loader.set_epoch(epoch)
        steps = loader.pipeline.steps
        return {
            int(index): (displayed(image, steps), "")
            for batch in loader
            for image, index in zip(batch["image"], batch["index"], strict=True)
        }
