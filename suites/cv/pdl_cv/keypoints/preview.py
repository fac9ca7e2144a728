"""Objects with their points as training sees them: the part of the image, versions of it, and what evaluation sees."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data import DataLoader, Dataset, Few, sample_name
from pdl.data.transforms.numeric import displayed
from pdl.report import Section
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
        loaders = self.loaders(dataset, look)
        objects: Any = loaders[1].dataset
        rows = Few(objects, look.samples).indices
        shown = self.versions(look, rows, loaders, partial(self._original, objects), self._shown)
        return [Section("Samples", f"<p>Normalize and ToFloat are undone.</p>{shown}")]

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
