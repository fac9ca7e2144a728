"""What of a model of rows goes into a bundle."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pdl.errors import listed
from pdl.export.deployment import Deployment
from pdl.nn import Module
from pdl.report import Card
from pdl_rec.click_through.deploy import ClickThroughDeployer

if TYPE_CHECKING:
    from pdl_rec.rows.task import RowPrediction


class RowDeployer(ClickThroughDeployer):
    """Classes of rows with their probabilities, or numbers in the units of the data."""

    task: RowPrediction

    def deployment(self, model: Module, dataset: Any = None) -> Deployment:
        task = self.task
        steps: list[dict[str, Any]] = [{"step": "softmax"}, {"step": "top", "k": min(5, len(task.classes))}]
        if task.kind == "number":
            steps = [{"step": "values", "scale": [float(task.std or 1.0)], "shift": [float(task.mean)]}]
        labels = task.classes if task.kind == "class" else [task.target]
        return replace(super().deployment(model, dataset), post={"logits": steps}, labels=list(labels))

    def card(self, model: Module) -> Card:
        task = self.task
        what = f"one of {listed(task.classes, 20)}" if task.kind == "class" else "a number"
        columns = task.encoding.inputs_from
        return replace(
            super().card(model),
            title=f"{type(model).__name__}: {task.target}",
            summary=f"The {task.target} of a row, {what}, from {len(columns)} columns: {listed(columns, 40)}.",
        )
