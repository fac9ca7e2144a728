"""Pairs as training sees them: the originals, versions of them, and what evaluation sees."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data import DataLoader, Dataset, Few, sample_name
from pdl.data.transforms.numeric import displayed
from pdl.report import Section
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
        loaders = self.loaders(dataset, look)
        return [Section("Samples", self.versions(look, rows, loaders, partial(self._original, dataset), self._shown))]

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
