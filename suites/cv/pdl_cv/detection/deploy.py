"""What of a detector goes into a bundle."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from pdl import Tensor
from pdl.data import Dataset
from pdl.data.image import Mode, change_mode
from pdl.data.pipeline import deployed_steps, prepares
from pdl.dims import Dim
from pdl.dtype import as_dtype
from pdl.errors import listed
from pdl.export.deployment import Deployment
from pdl.nn import Module
from pdl.ops.base import Spec
from pdl.report import Card, png
from pdl.train import Deployer
from pdl.train.task import first_samples

if TYPE_CHECKING:
    from pdl_cv.detection.task import Detection

SAMPLES = 4
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
        """images [N, H, W, C] -> boxes [N, A, 4] in pixels of the input, and scores [N, A, classes]."""
        return self.net.dense(images)  # type: ignore[no-any-return, attr-defined]


class DetectionDeployer(Deployer):
    """Boxes, scores and labels of images that are prepared as for evaluation; the objects in pixels of the original."""

    task: Detection
    forms: ClassVar[Mapping[str, str]] = {
        "dense": "all boxes [A, 4] in pixels of the net's input and scores [A, classes], before suppression"
    }

    def deployment(self, model: Module, dataset: Any = None) -> Deployment:
        task = self.task
        mode: Mode = task.mode or "rgb"
        transforms = self.recipe.data.transforms(training=False)
        samples = [change_mode(image, mode) for image in _images(dataset, mode)]
        prepare = prepares(transforms)
        first = prepare(samples[0])["image"]
        dense = self.chosen == "dense"
        outputs = ("boxes", "scores", *([] if dense else ["labels"]), *(["masks"] if task.masks and not dense else []))
        return Deployment(
            module=Dense(model) if dense else Found(model),
            net=model,
            inputs={"image": Spec((Dim.symbol("n", 3), *first.shape), as_dtype(first.dtype))},
            outputs=outputs,
            pre={"image": [{"step": "image", "mode": mode}, *deployed_steps(transforms)]},
            post={} if dense else {"boxes": [self.finding()]},
            samples=samples,
            prepare=prepare,
            labels=task.classes,
            about={**self.recipe.identity(), "parameters": _count(model)},
        )

    def finding(self) -> dict[str, Any]:
        """The step that answers."""
        masks = {"masks": "masks"} if self.task.masks else {}
        return {"step": "detections", "score": self.task.score, **masks}

    def card(self, model: Module) -> Card:
        classes = self.task.classes
        return Card(
            title=f"{type(model).__name__}, {len(classes)} {'class' if len(classes) == 1 else 'classes'}",
            summary=f"A detector ({self.recipe.model.target}, {_count(model):,} parameters) of {listed(classes, 20)}.",
            protocol=f"One pass over each split, in float32: {PROTOCOLS[self.task.protocol]}.",
            use="    session = pdl.runtime.load('model.pdl')\n"
            "    session(image)          # uint8 [H, W, 3] RGB, a path, or the bytes of a file\n\n"
            "or `pdl predict model.pdl photo.jpg --save drawn`.",
            data=self.learned_from,
        )

    def example(self, loaders: Mapping[str, Any], folder: Path) -> str:
        """An image of the test data, as a file."""
        loader = loaders.get("test") or loaders.get("val")
        if loader is None or not isinstance(loader.dataset, Dataset):
            return "IMAGE"
        path = folder / "example.png"
        path.write_bytes(png(loader.dataset[0]["image"]))
        return str(path)


def _count(model: Module) -> int:
    return sum(p.size for p in model.parameters())


def _images(dataset: Any, mode: Mode) -> list[np.ndarray]:
    """A few images of the data, or noise where there is none."""
    if dataset is not None:
        few = first_samples(dataset, min(SAMPLES, len(dataset))) if isinstance(dataset, Dataset) else dataset
        return [sample["image"] for sample in islice(iter(few), SAMPLES)]
    rng, channels = np.random.default_rng(0), 1 if mode == "gray" else 3
    return [rng.integers(0, 256, (h, w, channels), dtype=np.uint8) for h, w in [(96, 128), (240, 200), (33, 47)]]
