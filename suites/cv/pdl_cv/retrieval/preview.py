"""Images as training sees them: each with its class, its file, and versions of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pdl.data import Dataset, sample_name
from pdl.data.transforms.numeric import displayed
from pdl_cv.classification.preview import Cell, ClassificationPreviewer
from pdl_cv.classification.report import small

if TYPE_CHECKING:
    from pdl_cv.retrieval.task import Retrieval


class RetrievalPreviewer(ClassificationPreviewer):
    """As of classes of images, whose names are those of the split."""

    task: Retrieval  # type: ignore[assignment]

    def _original(self, dataset: Dataset, index: int) -> Cell:
        sample = dataset[index]
        image, name = sample["image"], dataset.classes[int(sample["label"])]
        size = f"{image.shape[1]}x{image.shape[0]}"
        return small(displayed(image, ())), f"{name}, {sample_name(dataset, index)}, {size}"
