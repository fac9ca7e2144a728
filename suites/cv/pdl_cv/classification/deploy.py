"""What of a classifier goes into a bundle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pdl.errors import listed
from pdl.export.deployment import Deployment
from pdl.nn import Module
from pdl.report import Card
from pdl.train.images import ImageDeployer
from pdl_cv.views import named, with_views

if TYPE_CHECKING:
    from pdl_cv.classification.task import Classification


class ClassificationDeployer(ImageDeployer):
    """Logits of images [N, H, W, C], prepared as for evaluation; softmax and the five best classes afterwards."""

    task: Classification
    samples = 8

    def deployment(self, model: Module, dataset: Any = None) -> Deployment:
        task = self.task
        return self.of_images(
            model,
            dataset,
            module=with_views(model, task.tta),
            outputs=("logits",),
            post={"logits": [{"step": "softmax"}, {"step": "top", "k": min(5, len(task.classes))}]},
            labels=task.classes,
            any_size=not hasattr(model, "image_size"),  # which nets have that are built for one size
            **named(task.tta),
        )

    def card(self, model: Module) -> Card:
        classes, views = self.task.classes, ", ".join(self.task.tta)
        crop = f"the mean of the probabilities of an image and of its views ({views})" if views else "single crop"
        return self.image_card(
            f"{type(model).__name__}, {len(classes)} classes",
            f"An image classifier ({self.size_of(model)}). Classes: {listed(classes, 20)}.",
            f"One pass over each split, {crop}, in float32.",
            draws=False,
        )
