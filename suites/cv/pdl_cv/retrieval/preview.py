"""Images as training sees them: each with its class, its file, and versions of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pdl.data import Sample
from pdl_cv.classification.preview import ClassificationPreviewer

if TYPE_CHECKING:
    from pdl_cv.retrieval.task import Retrieval


class RetrievalPreviewer(ClassificationPreviewer):
    """As of classes of images, whose names are those of the split."""

    task: Retrieval  # type: ignore[assignment]

    def about(self, sample: Sample, dataset: Any) -> str:
        name: str = dataset.classes[int(sample["label"])]
        return name
