"""What of a keypoint net goes into a bundle."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data import Dataset
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
    from pdl_cv.keypoints.task import Keypoints

SAMPLES = 4


class KeypointDeployer(Deployer):
    """Heatmaps of images that are prepared as for evaluation; the points in pixels of the original."""

    task: Keypoints

    def deployment(self, model: Module, dataset: Any = None) -> Deployment:
        task = self.task
        transforms = self.recipe.data.transforms(training=False)
        prepare = prepares(transforms)
        samples = self._images(dataset)
        first = prepare(samples[0])["image"]
        step = {
            "step": "keypoints",
            "refine": task.refine,
            "sigma": task.sigma,
            "score": task.score,
            "skeleton": [list(pair) for pair in task.skeleton or ()],
            "margin": None if task.whole else task.margin,
        }
        return Deployment(
            module=task.flipping(model),
            net=model,
            inputs={"image": Spec((Dim.symbol("n", 3), *first.shape), as_dtype(first.dtype))},
            outputs=("heatmaps",),
            pre={"image": [{"step": "image", "mode": "rgb"}, *deployed_steps(transforms)]},
            post={"heatmaps": [step]},
            samples=samples,
            prepare=prepare,
            labels=task.names,
            about={**self.recipe.identity(), "parameters": _count(model)},
        )

    def _images(self, dataset: Any) -> list[np.ndarray]:
        """The parts of a few images around objects, or noise where there is no data."""
        if isinstance(dataset, Dataset):
            few = first_samples(dataset, min(SAMPLES, len(dataset)))
            few = (
                self.task.instances(few, self.recipe) if hasattr(few, "annotation") else few
            )  # the loader's has objects
            return [few[i]["image"] for i in range(min(SAMPLES, len(few)))]
        rng = np.random.default_rng(0)
        return [rng.integers(0, 256, (h, w, 3), dtype=np.uint8) for h, w in [(96, 128), (240, 200), (133, 47)]]

    def card(self, model: Module) -> Card:
        task = self.task
        around = (
            "whole images of one object"
            if task.whole
            else f"the part of an image {task.margin} times as large as a box"
        )
        return Card(
            title=f"{type(model).__name__}, {len(task.names)} points",
            summary=f"Keypoints by heatmaps ({self.recipe.model.target}, {_count(model):,} parameters): "
            f"{listed(task.names, 20)}. It takes {around}, of one object.",
            protocol="One pass over each split, in float32; PCK: the share of points no further from the truth than a "
            "part of the size of the torso.",
            use="    session = pdl.runtime.load('model.pdl')\n"
            "    session(image)          # uint8 [H, W, 3] RGB, a path, or the bytes of a file\n\n"
            "or `pdl predict model.pdl photo.jpg --save drawn`.",
            data=self.learned_from,
        )

    def example(self, loaders: Mapping[str, Any], folder: Path) -> str:
        """The part of a test image around an object, as a file."""
        loader = loaders.get("test") or loaders.get("val")
        if loader is None:
            return "IMAGE"
        path = folder / "example.png"
        path.write_bytes(png(loader.dataset[0]["image"]))
        return str(path)


def _count(model: Module) -> int:
    return sum(p.size for p in model.parameters())
