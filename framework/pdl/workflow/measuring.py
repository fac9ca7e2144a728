"""The task's own metrics of a bundle: its session takes the place of the net in the evaluation."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from pdl.errors import UsageError
from pdl.export.deployment import Deployment
from pdl.nn import Module
from pdl.runtime.session import Session
from pdl.train.deployed import Deployed
from pdl.train.loop import evaluate
from pdl.train.task import Task


def measure(
    task: Task, session: Session, deployment: Deployment, model: Module, loader: Iterable[Any], split: str
) -> dict[str, float]:
    """The task's metrics of a session on a split, without the split's name."""
    require_same_net(deployment, model)
    found = evaluate(task, Deployed(session), loader, split=split)
    return {name.removeprefix(f"{split}/"): float(value) for name, value in found.metrics.items()}


def require_same_net(deployment: Deployment, model: Module) -> None:
    """UsageError where the deployed outputs may not be those that the metrics take."""
    if model not in (deployment.module, deployment.net):
        raise UsageError(
            "the task deploys another module than the net it trains: its metrics cannot be measured on the bundle"
        )
