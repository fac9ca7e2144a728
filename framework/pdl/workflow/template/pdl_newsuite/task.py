"""The task: what the trainer calls, and all it knows of what is being learned."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

import pdl
from pdl.data.image import change_mode
from pdl.data.pipeline import Pipeline
from pdl.data.randomness import BatchRandom
from pdl.dims import Dim
from pdl.export.deployment import Deployment
from pdl.nn import Module
from pdl.ops.base import Spec
from pdl.report import png
from pdl.train import Loss, Metric, Recipe, Task
from pdl.train.task import first_samples


class Locate(Task):
    """Where the dot is in a gray picture: its x and y as parts of width and height, by least squares.

    Samples are {"image": uint8 [H, W, 1], "point": float32 [2]}.
    """

    monitor = "val/distance"
    monitor_mode = "min"

    # -- training ------------------------------------------------------------------------------------------------------
    def step(self, model: Module, batch: Any) -> Loss:
        """The mean of the squared errors of both coordinates."""
        points = model(pdl.as_tensor(batch["image"]))
        wrong = points - pdl.as_tensor(batch["point"])
        return Loss((wrong * wrong).mean(), len(batch["point"]), (points.detach(), batch["point"]))

    def metrics(self) -> dict[str, Metric]:
        """How far off the answers are."""
        return {"distance": Distance()}

    # -- using ---------------------------------------------------------------------------------------------------------
    def deployment(
        self,
        model: Module,
        recipe: Recipe,
        *,
        dataset: Any = None,
        metrics: Mapping[str, float | None] | None = None,
        licence: str = "",
    ) -> Deployment:
        """Points of prepared pictures; the pipeline does what the transforms for evaluation do."""
        prepare = self._prepare(recipe)
        samples = [sample["image"] for sample in first_samples(dataset, min(4, len(dataset)))] if dataset else _noise()
        image = prepare(samples[0])["image"]
        transforms = recipe.data.transforms(training=False)
        steps = [{"step": "image", "mode": "gray"}, *(step for each in transforms for step in each.deployed())]
        measured = "".join(f"- {name}: {value:.4f}\n" for name, value in (metrics or {}).items() if value is not None)
        return Deployment(
            module=model,
            inputs={"image": Spec((Dim.symbol("n", 3), *image.shape), pdl.float32)},
            outputs=("point",),
            pre={"image": steps},
            post={"point": [{"step": "identity"}]},
            samples=samples,
            prepare=prepare,
            card=f"# Where the dot is\n\nx and y as parts of width and height.\n\n## Metrics\n\n{measured}",
            licence=licence,
            about=recipe.identity(),
        )

    def example(self, loaders: Mapping[str, Any], folder: Path) -> str:
        """A picture of the test data, as a file."""
        path = folder / "example.png"
        path.write_bytes(png(loaders.get("test", loaders["train"]).dataset[0]["image"]))
        return str(path)

    def _prepare(self, recipe: Recipe) -> Callable[[Any], dict[str, Any]]:
        """A picture uint8 [H, W, C] -> the model's input, without a batch axis."""
        pipeline = Pipeline(recipe.data.transforms(training=False))

        def prepare(image: np.ndarray) -> dict[str, Any]:
            sample = {"image": change_mode(image, "gray"), "index": 0}
            done = pipeline.run([sample], BatchRandom(0, 0, np.arange(1)))
            return {"image": np.ascontiguousarray(done["image"][0] if isinstance(done, dict) else done[0]["image"])}

        return prepare


class Distance(Metric):
    """The mean distance of points float [N, 2] from where they should be."""

    def __init__(self) -> None:
        self.total, self.count = 0.0, 0

    def update(self, points: Any, wanted: Any) -> None:
        """One batch."""
        self.total += float(np.linalg.norm(np.asarray(points, np.float64) - wanted, axis=1).sum())
        self.count += len(points)

    def compute(self) -> float:
        """NaN before the first batch."""
        return self.total / self.count if self.count else float("nan")


def _noise() -> list[np.ndarray]:
    """Pictures to check a bundle with where the data is not."""
    return [np.random.default_rng(0).integers(0, 256, (40, 40, 1), dtype=np.uint8)]
