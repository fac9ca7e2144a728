"""Training: one loop (`Trainer`) that knows a `Task` and nothing of pixels."""

from __future__ import annotations

from pdl.export.deployment import Deployment
from pdl.train.deployed import Deployed
from pdl.train.hooks import EarlyStop, Hook
from pdl.train.loop import Evaluation, State, Trainer
from pdl.train.metrics import Metric
from pdl.train.settings import TrainSettings
from pdl.train.task import Loss, Parts, Task, Tiny

__all__ = [
    "Deployed", "Deployment", "EarlyStop", "Evaluation", "Hook", "Loss", "Metric", "Parts", "State", "Task", "Tiny",
    "TrainSettings", "Trainer",
]  # fmt: skip
