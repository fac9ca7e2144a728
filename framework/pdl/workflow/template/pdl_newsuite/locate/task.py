"""The task: what the trainer calls, and all it knows of what is being learned."""

from __future__ import annotations

from typing import Any

import pdl
from pdl.nn import Module
from pdl.train import Loss, Metric, Recipe, Task
from pdl_newsuite.locate.deploy import LocateDeployer
from pdl_newsuite.locate.metrics import Distance


class Locate(Task):
    """Where the dot is in a gray image: its x and y as parts of width and height, by least squares.

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

    # -- what a task hands over ----------------------------------------------------------------------------------------
    def deployer(self, recipe: Recipe) -> LocateDeployer:
        """Who makes bundles of its models and answers with them."""
        return LocateDeployer(self, recipe)
