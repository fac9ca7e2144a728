"""What stands beside a model of clicks: the share of yeses, and logistic regression."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

import pdl
from pdl import optim
from pdl.nn import Module, ModuleList
from pdl.tensor import Tensor, no_grad
from pdl.train import Loss, Recipe
from pdl_rec.models.lr import LR

if TYPE_CHECKING:
    from pdl_rec.click_through.task import ClickThrough

Array = np.ndarray
ROWS, PASSES = 200_000, 20  # read by the regression in all, and passes over the data at most
RATE, DECAY = 0.01, 1e-4  # of AdamW


class Regressions(Module):
    """A regression for each label: logits [N, labels]."""

    def __init__(self, fields: Mapping[str, Any], labels: int) -> None:
        self.each = ModuleList(LR(fields=fields) for _ in range(labels))

    def forward(self, *inputs: Tensor) -> Tensor:
        return pdl.stack([one(*inputs) for one in self.each], axis=1)


def baselines(
    task: ClickThrough, recipe: Recipe, datasets: Mapping[str, Any], split: str
) -> dict[str, dict[str, float]]:
    """The prior, and `pdl_rec.LR` on the same fields, fitted with AdamW to 200,000 rows (or 20 passes). Without the
    regression where it is the model."""
    train = task.loader(datasets["train"], recipe, training=True, seed=0)
    measured = {"prior": _prior(train)}
    if not recipe.model.target.endswith(".LR"):
        with pdl.random.fork_seed(0):
            measured["logistic regression"] = _regression(task, train)
    loader = task.loader(datasets[split], recipe, training=False, seed=0)
    return {name: _measured(task, loader, logits) for name, logits in measured.items()}


def _prior(train: Any) -> Callable[[Any], Array]:
    total, seen = 0.0, 0
    for batch in train:
        total, seen = total + np.asarray(batch["label"], np.float64).sum(axis=0), seen + len(batch["label"])
        if seen >= ROWS:
            break
    share = (total + 1.0) / (seen + 2.0)
    logit = np.log(share / (1 - share)).astype(np.float32)
    return lambda batch: np.tile(logit, (len(batch["label"]), 1))


def _regression(task: ClickThrough, train: Any) -> Callable[[Any], Array]:
    model = Regressions(task.encoding.schema.plain(), len(task.labels))
    optimizer, seen = optim.AdamW(model, lr=RATE, weight_decay=DECAY), 0
    for epoch in range(PASSES):
        if hasattr(train, "set_epoch"):
            train.set_epoch(epoch)
        for batch in train:
            optimizer.zero_grad()
            task.step(model, batch).value.backward()
            optimizer.step()
            seen += len(batch["label"])
            if seen >= ROWS:
                break
        if seen >= ROWS:
            break
    model.eval()

    def logits(batch: Any) -> Array:
        with no_grad():
            return np.asarray(model(*task.inputs(batch)).data)

    return logits


def _measured(task: ClickThrough, loader: Any, logits: Callable[[Any], Array]) -> dict[str, float]:
    metrics = task.metrics()
    for batch in loader:
        task.update_metrics(metrics, Loss(pdl.tensor(0.0), 1, (logits(batch), batch["label"])), batch)
    found = {name: metric.compute() for name, metric in metrics.items()}
    return {name: value for name, value in found.items() if isinstance(value, float)}
