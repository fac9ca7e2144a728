"""What of a detector goes into a bundle."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from pdl import Tensor
from pdl.errors import listed
from pdl.export.deployment import Deployment
from pdl.nn import Module
from pdl.report import Card
from pdl.train.images import ImageDeployer

if TYPE_CHECKING:
    from pdl_cv.detection.task import Detection

PROTOCOLS = {
    "coco": "COCO's average precision (101 recall points); ap is the mean over IoUs of 0.50 to 0.95",
    "voc": "Pascal VOC's average precision over all points of the curve at an IoU of 0.5; objects marked as difficult "
    "do not count",
}


class Found(Module):
    """A detector whose answer has no empty places: what programs and bundles hold."""

    def __init__(self, net: Module) -> None:
        self.net = net
        self.train(net.training)

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        """images [N, H, W, C] -> boxes, scores, labels and, of nets that find them, masks."""
        return tuple(each for each in self.net(images) if each is not None)


class Dense(Module):
    """A detector before suppression."""

    def __init__(self, net: Module) -> None:
        self.net = net
        self.train(net.training)

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        """images [N, H, W, C] -> boxes [N, A, 4] ([N, A, classes, 4] of two-stage nets) in pixels of the input, and
        scores [N, A, classes]."""
        return self.net.dense(images)  # type: ignore[no-any-return, attr-defined]


class DetectionDeployer(ImageDeployer):
    """Boxes, scores and labels of images that are prepared as for evaluation; the objects in pixels of the original."""

    task: Detection
    forms: ClassVar[Mapping[str, str]] = {
        "dense": "all boxes [A, 4] ([A, classes, 4] of two-stage nets) in pixels of the net's input and scores "
        "[A, classes], before suppression"
    }

    def deployment(self, model: Module, dataset: Any = None) -> Deployment:
        task, dense = self.task, self.chosen == "dense"
        masks = {"masks": "masks"} if task.masks else {}
        step = {"step": "detections", "score": task.score, **masks}
        return self.of_images(
            model,
            dataset,
            module=Dense(model) if dense else Found(model),
            outputs=("boxes", "scores") if dense else ("boxes", "scores", "labels", *masks),
            post={} if dense else {"boxes": [step]},
            labels=task.classes,
        )

    def card(self, model: Module) -> Card:
        classes = self.task.classes
        return self.image_card(
            f"{type(model).__name__}, {len(classes)} {'class' if len(classes) == 1 else 'classes'}",
            f"A detector ({self.size_of(model)}) of {listed(classes, 20)}.",
            f"One pass over each split, in float32: {PROTOCOLS[self.task.protocol]}.",
        )
