"""Pairs as training sees them: the originals, versions of them, and what evaluation sees."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data import DataLoader, Dataset, Few, sample_name
from pdl.data.transforms.numeric import displayed
from pdl.report import Section, image_table
from pdl.train import Look, Previewer
from pdl_cv.classification.report import small
from pdl_cv.steps.pictures import as_pixels, grid

if TYPE_CHECKING:
    from pdl_cv.image_to_image.task import ImageToImage

Cell = tuple[np.ndarray, str]
SIDE = 200  # pixels of an image on the page, at most about so many


class ImageToImagePreviewer(Previewer):
    """A row for each pair, image and picture side by side: as it is, as the first epochs see it, and as evaluation
    does."""

    task: ImageToImage
    needs_model = False

    def sections(self, dataset: Any, look: Look) -> list[Section]:
        if not isinstance(dataset, Dataset):
            return super().sections(dataset, look)
        rows = Few(dataset, look.samples).indices
        training = self.loader(dataset, look, training=True) if look.training else None
        seen = [] if training is None else [self._shown(training, rows, epoch) for epoch in range(look.versions)]
        columns = [*seen, self._shown(self.loader(dataset, look, training=False), rows, 0)]
        lines = [[self._original(dataset, row), *(each[row] for each in columns)] for row in sorted(columns[-1])]
        head = ["original", *(f"epoch {epoch}" for epoch in range(len(seen))), "evaluation"]
        return [Section("Samples", image_table(lines, head=head))]

    def _original(self, dataset: Dataset, index: int) -> Cell:
        sample = dataset[index]
        height, width = sample["image"].shape[:2]
        return _drawn(sample["image"], sample["picture"]), f"{sample_name(dataset, index)}, {width}x{height}"

    def _shown(self, loader: DataLoader, rows: Any, epoch: int) -> dict[int, Cell]:
        """Index -> the pair in an epoch."""
        batch = loader.samples(rows, epoch)
        each = zip(np.asarray(batch["index"]).tolist(), batch["image"], batch["picture"], strict=True)
        steps = loader.pipeline.steps
        return {index: (_drawn(displayed(image, steps), as_pixels(picture)), "") for index, image, picture in each}


def _drawn(image: np.ndarray, picture: np.ndarray) -> np.ndarray:
    return np.asarray(grid([[small(np.ascontiguousarray(each), SIDE) for each in (image, picture)]]))
