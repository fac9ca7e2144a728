"""Pictures that were made of others, for the report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pdl.report import Section, picture
from pdl.train import Evaluation, Reporter

if TYPE_CHECKING:
    from pdl_cv.image_to_image.task import ImageToImage


class ImageToImageReporter(Reporter):
    """A row for each of the first images of a split: the image, what was made of it, and what is true."""

    task: ImageToImage

    def sections(self, evaluation: Evaluation, dataset: Any) -> list[Section]:
        drawn = evaluation.details.get("pairs")
        if drawn is None or not drawn.size:
            return []
        said = "<p>Each row: the image, what was made of it, and the true picture. The first ones, not chosen.</p>"
        return [Section(f"Pictures ({evaluation.split})", said + picture(drawn))]
