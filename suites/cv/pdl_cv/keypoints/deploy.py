"""What of a keypoint net goes into a bundle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.errors import listed
from pdl.export.deployment import Deployment
from pdl.nn import Module
from pdl.report import Card
from pdl.train.images import ImageDeployer
from pdl.train.task import first_samples

if TYPE_CHECKING:
    from pdl_cv.keypoints.task import Keypoints


class KeypointDeployer(ImageDeployer):
    """Heatmaps of images that are prepared as for evaluation; the points in pixels of the original."""

    task: Keypoints

    def deployment(self, model: Module, dataset: Any = None) -> Deployment:
        task = self.task
        step = {
            "step": "keypoints",
            "refine": task.refine,
            "sigma": task.sigma,
            "score": task.score,
            "skeleton": [list(pair) for pair in task.skeleton or ()],
            "margin": None if task.whole else task.margin,
        }
        return self.of_images(
            model,
            dataset,
            module=task.flipping(model),
            outputs=("heatmaps",),
            post={"heatmaps": [step]},
            labels=task.names,
        )

    def images(self, dataset: Any) -> list[np.ndarray]:
        """The parts of a few images around objects, or noise where there are none."""
        if hasattr(dataset, "annotation"):  # that of images, and not the loader's of objects
            dataset = self.task.instances(first_samples(dataset, min(self.samples, len(dataset))), self.recipe)
        return super().images(dataset)

    def card(self, model: Module) -> Card:
        task = self.task
        part = "whole images" if task.whole else f"the part of an image {task.margin} times as large as a box"
        return self.image_card(
            f"{type(model).__name__}, {len(task.names)} points",
            f"Keypoints by heatmaps ({self.size_of(model)}): {listed(task.names, 20)}. It takes {part}, of one object.",
            "One pass over each split, in float32; PCK: the share of points no further from the truth than a part of "
            "the size of the torso.",
        )
