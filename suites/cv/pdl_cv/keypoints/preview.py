"""Objects with their points as training sees them: the part of the image, versions of it, and what evaluation sees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data import DataLoader, Dataset, Few, sample_name
from pdl.data.transforms.numeric import displayed
from pdl.report import Section, image_table
from pdl.report.answers import rendered
from pdl.runtime.drawing import Drawing
from pdl.train import Look, Previewer
from pdl_cv.classification.report import small
from pdl_cv.keypoints.report import as_answer
from pdl_cv.steps.keypoints import posed

if TYPE_CHECKING:
    from pdl_cv.keypoints.task import Keypoints

Cell = tuple[np.ndarray, str]
SIDE = 240  # pixels of an image on the page, at most about so many


class KeypointPreviewer(Previewer):
    """A row for each object: what is cut out, as the first epochs see it and as evaluation sees it, with its points."""

    task: Keypoints
    needs_model = False

    def sections(self, dataset: Any, look: Look) -> list[Section]:
        if not isinstance(dataset, Dataset):
            return super().sections(dataset, look)
        evaluation = self.loader(dataset, look, training=False)
        objects: Any = evaluation.dataset
        rows = Few(objects, look.samples).indices
        training = self.loader(dataset, look, training=True) if look.training else None
        seen = [] if training is None else [self._shown(training, rows, epoch) for epoch in range(look.versions)]
        columns = [*seen, self._shown(evaluation, rows, 0)]
        lines = [[self._original(objects, row), *(each[row] for each in columns)] for row in sorted(columns[-1])]
        head = ["original", *(f"epoch {epoch}" for epoch in range(len(seen))), "evaluation"]
        return [Section("Samples", f"<p>Normalize and ToFloat are undone.</p>{image_table(lines, head=head)}")]

    def _original(self, objects: Any, index: int) -> Cell:
        sample = objects[index]
        height, width = sample["image"].shape[:2]
        return self._drawn(sample["image"], sample["keypoints"][0]), f"{sample_name(objects, index)}, {width}x{height}"

    def _shown(self, loader: DataLoader, rows: Any, epoch: int) -> dict[int, Cell]:
        """Index -> the object in an epoch."""
        batch = loader.samples(rows, epoch)
        each = zip(np.asarray(batch["index"]).tolist(), batch["image"], batch["keypoints"], strict=True)
        steps = loader.pipeline.steps
        return {index: (self._drawn(displayed(image, steps), points), "") for index, image, points in each}

    def _drawn(self, image: np.ndarray, points: np.ndarray) -> np.ndarray:
        skeleton = [(int(a), int(b)) for a, b in self.task.skeleton or ()]
        marks = posed(as_answer(points), skeleton, 0.5)
        return small(rendered(Drawing(np.ascontiguousarray(image), marks=marks)), SIDE)
