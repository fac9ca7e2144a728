"""What of a segmentation net goes into a bundle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pdl.errors import listed
from pdl.export.deployment import Deployment
from pdl.nn import Module
from pdl.report import Card
from pdl.train.images import ImageDeployer
from pdl_cv.views import MaskViews, named, with_views

if TYPE_CHECKING:
    from pdl_cv.segmentation.task import Segmentation


class SegmentationDeployer(ImageDeployer):
    """Scores of images that are prepared as for evaluation; the class of each pixel of the original."""

    task: Segmentation

    def deployment(self, model: Module, dataset: Any = None) -> Deployment:
        return self.of_images(
            model,
            dataset,
            module=with_views(model, self.task.tta, MaskViews),
            outputs=("scores",),
            post={"scores": [{"step": "segmentation"}]},
            labels=self.task.classes,
            **named(self.task.tta),
        )

    def card(self, model: Module) -> Card:
        classes, views = self.task.classes, ", ".join(self.task.tta)
        averaged = f", the mean of the probabilities of an image and of its views ({views})" if views else ""
        return self.image_card(
            f"{type(model).__name__}, {len(classes)} classes of pixels",
            f"Segmentation ({self.size_of(model)}): {listed(classes, 20)}.",
            f"One pass over each split{averaged}, in float32, at the size of the original masks; counts of pixels run "
            "over the whole split, mIoU is the mean over classes.",
        )
