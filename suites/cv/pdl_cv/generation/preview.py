"""Images as training sees them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pdl_cv.classification.preview import ClassificationPreviewer

if TYPE_CHECKING:
    from pdl_cv.generation.task import Generation


class GenerationPreviewer(ClassificationPreviewer):
    """As of classes of images."""

    task: Generation  # type: ignore[assignment]
