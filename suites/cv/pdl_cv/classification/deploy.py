"""What of a classifier goes into a bundle."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

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
from pdl_cv.classification.views import with_views

if TYPE_CHECKING:
    from pdl_cv.classification.task import Classification

SAMPLES = 8


class ClassificationDeployer(Deployer):
    """Logits of images [N, H, W, C], prepared as for evaluation; softmax and the five best classes afterwards."""

    task: Classification

    def deployment(self, model: Module, dataset: Any = None) -> Deployment:
        task = self.task
        mode: Mode = task.mode or "rgb"
        transforms = self.recipe.data.transforms(training=False)
        samples = [change_mode(image, mode) for image in _images(dataset, mode)]
        prepare = prepares(transforms)
        first = prepare(samples[0])["image"]
        height, width = first.shape[:2]
        if not hasattr(model, "image_size"):  # of nets that are built for one size
            height, width = Dim.symbol("h", height), Dim.symbol("w", width)
        return Deployment(
            module=with_views(model, task.tta),
            net=model,
            inputs={"image": Spec((Dim.symbol("n", 3), height, width, first.shape[2]), as_dtype(first.dtype))},
            outputs=("logits",),
            pre={"image": [{"step": "image", "mode": mode}, *deployed_steps(transforms)]},
            post={"logits": [{"step": "softmax"}, {"step": "top", "k": min(5, len(task.classes))}]},
            samples=samples,
            prepare=prepare,
            labels=task.classes,
            about={**self.recipe.identity(), "parameters": _count(model), **self._views()},
        )

    def card(self, model: Module) -> Card:
        classes = self.task.classes
        named = listed(classes, 20)
        views = ", ".join(self.task.tta)
        crop = f"the mean of the probabilities of an image and of its views ({views})" if views else "single crop"
        return Card(
            title=f"{type(model).__name__}, {len(classes)} classes",
            summary=f"An image classifier ({self.recipe.model.target}, {_count(model):,} parameters). "
            f"Classes: {named}.",
            protocol=f"One pass over each split, {crop}, in float32.",
            use="    session = pdl.runtime.load('model.pdl')\n"
            "    session(image)          # uint8 [H, W, 3] RGB, a path, or the bytes of a file\n\n"
            "or `pdl predict model.pdl photo.jpg`.",
            data=self.learned_from,
        )

    def _views(self) -> dict[str, str]:
        return {"tta": ", ".join(self.task.tta)} if self.task.tta else {}

    def example(self, loaders: Mapping[str, Any], folder: Path) -> str:
        """An image of the test data, as a file."""
        loader = loaders.get("test") or loaders.get("val")
        if loader is None or not isinstance(loader.dataset, Dataset):
            return "IMAGE"
        path = folder / "example.png"
        path.write_bytes(png(loader.dataset[0]["image"]))
        return str(path)


def _images(dataset: Any, mode: Mode) -> list[np.ndarray]:
    """A few images of the data, or noise where there is none."""
    if dataset is not None:
        few = first_samples(dataset, min(SAMPLES, len(dataset))) if isinstance(dataset, Dataset) else dataset
        return [sample["image"] for sample in islice(iter(few), SAMPLES)]
    rng, channels = np.random.default_rng(0), 1 if mode == "gray" else 3
    sides = [(96, 128), (240, 200), (33, 47), (256, 256)]
    return [rng.integers(0, 256, (h, w, channels), dtype=np.uint8) for h, w in sides]


def _count(model: Module) -> int:
    return sum(p.size for p in model.parameters())
