"""What of a text detector goes into a bundle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pdl.export.deployment import Deployment
from pdl.nn import Module
from pdl.report import Card
from pdl.train.images import ImageDeployer

if TYPE_CHECKING:
    from pdl_ocr.detection.task import TextDetection


class DetectionDeployer(ImageDeployer):
    """What the net answers for images [N, H, W, C] of any size; the step of its coding makes lines of it."""

    task: TextDetection

    def deployment(self, model: Any, dataset: Any = None) -> Deployment:
        return self.of_images(
            model,
            dataset,
            module=model,
            outputs=("map",),
            post={"map": [{"step": model.coding.step.name, **self.task.step_arguments}]},
            labels=[],
            any_size=True,
            tolerance=model.tolerance,
        )

    def card(self, model: Module) -> Card:
        return self.image_card(
            type(model).__name__,
            f"Finds lines of text ({self.size_of(model)}).",
            "One pass over each split, in float32, page by page. A line found and one that is there are a pair from an "
            "intersection over union of 0.5 on, one to one; what is found in text marked as unreadable does not count "
            "(ICDAR 2015). deteval: the harmonic mean by DetEval (Wolf and Jolion 2006), of polygons.",
        )
