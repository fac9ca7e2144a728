"""Images with their masks as training sees them: the original, versions of it, and what evaluation sees."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data import DataLoader, Dataset, Few, sample_name
from pdl.data.transforms.numeric import displayed
from pdl.report import Section, table
from pdl.train import Look, Previewer
from pdl_cv.classification.report import small
from pdl_cv.steps.segmentation import tinted

if TYPE_CHECKING:
    from pdl_cv.segmentation.task import Segmentation

Cell = tuple[np.ndarray, str]
SIDE = 240  # pixels of an image on the page, at most about so many
NOTE = "Normalize and ToFloat are undone. Pixels that come from outside of the image count nothing."


class SegmentationPreviewer(Previewer):
    """A row for each image: as it is, as the first epochs see it and as evaluation sees it, with the colours of the
    classes; then how many pixels each class has."""

    task: Segmentation
    needs_model = False

    def sections(self, dataset: Any, look: Look) -> list[Section]:
        if not isinstance(dataset, Dataset):
            return super().sections(dataset, look)
        rows = Few(dataset, look.samples).indices
        shown = self.versions(look, rows, self.loaders(dataset, look), partial(self._original, dataset), self._shown)
        made = [Section("Samples", f"<p>{NOTE}</p>{shown}")]
        pixels = getattr(dataset, "pixels", None)
        if pixels is not None:
            shares = pixels / max(1, pixels.sum())
            counts = [(name, f"{share:.2%}") for name, share in zip(self.task.classes, shares, strict=True)]
            made.append(Section("Classes", table(counts, head=("class", "of all pixels"), fold=30)))
        return made

    def _original(self, dataset: Dataset, index: int) -> Cell:
        sample = dataset[index]
        height, width = sample["image"].shape[:2]
        return _drawn(sample["image"], sample["mask"]), f"{sample_name(dataset, index)}, {width}x{height}"

    def _shown(self, loader: DataLoader, rows: Any, epoch: int) -> dict[int, Cell]:
        """Index -> the image in an epoch."""
        batch = loader.samples(rows, epoch)
        each = zip(np.asarray(batch["index"]).tolist(), batch["image"], batch["mask"], strict=True)
        steps = loader.pipeline.steps
        return {index: (_drawn(displayed(image, steps), mask), "") for index, image, mask in each}


def _drawn(image: np.ndarray, mask: np.ndarray) -> np.ndarray:
    return small(np.ascontiguousarray(tinted(displayed(image, ()), mask)), SIDE)
