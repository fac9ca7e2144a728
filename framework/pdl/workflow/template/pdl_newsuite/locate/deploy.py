"""What of a model goes into a bundle, and what its card says."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import pdl
from pdl.data.pipeline import deployed_steps, prepares
from pdl.dims import Dim
from pdl.export import Deployment
from pdl.nn import Module
from pdl.ops.base import Spec
from pdl.report import Card, png
from pdl.train import Deployer
from pdl.train.task import first_samples

if TYPE_CHECKING:
    from pdl_newsuite.locate.task import Locate


class LocateDeployer(Deployer):
    """Points of prepared images; the pipeline does what the transforms for evaluation do."""

    task: Locate

    def deployment(self, model: Module, dataset: Any = None) -> Deployment:
        """What goes into a bundle, and what it is checked with."""
        transforms = self.recipe.data.transforms(training=False)
        samples = [sample["image"] for sample in first_samples(dataset, min(4, len(dataset)))] if dataset else _noise()
        prepare = prepares(transforms)
        return Deployment(
            module=model,
            inputs={"image": Spec((Dim.symbol("n", 3), *prepare(samples[0])["image"].shape), pdl.float32)},
            outputs=("point",),
            pre={"image": [{"step": "image", "mode": "gray"}, *deployed_steps(transforms)]},
            post={"point": [{"step": "identity"}]},
            samples=samples,
            prepare=prepare,
            about=self.recipe.identity(),
        )

    def card(self, model: Module) -> Card:
        """What the model card says beside metrics and licence."""
        summary = "x and y of the dot in a gray image, as parts of its width and height."
        return Card("Where the dot is", summary, use="`pdl predict model.pdl image.png`", data=self.learned_from)

    def example(self, loaders: Mapping[str, Any], folder: Path) -> str:
        """An image of the test data, as a file."""
        path = folder / "example.png"
        path.write_bytes(png(loaders.get("test", loaders["train"]).dataset[0]["image"]))
        return shlex.quote(str(path))


def _noise() -> list[np.ndarray]:
    """Images to check a bundle with where the data is not."""
    return [np.random.default_rng(0).integers(0, 256, (40, 40, 1), dtype=np.uint8)]
