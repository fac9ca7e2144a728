"""Training: one loop (`Trainer`) that knows a `Task` and nothing of pixels.

The functions behind the commands:

    result = pdl.train.train(pdl.config.load("configs/cv/digits_lenet.yaml"), run="runs/digits")
    pdl.train.evaluate("runs/digits", split="val").metrics
    pdl.train.predict("runs/digits", ["photo.png"], topk=3)
    pdl.train.info("runs/digits")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from pdl.train.hooks import EarlyStop, Hook
from pdl.train.metrics import Metric
from pdl.train.settings import TrainSettings
from pdl.train.task import Deployment, Loss, Parts, Task, Tiny

if TYPE_CHECKING:
    from pdl.train.folder import Run
    from pdl.train.loop import Evaluation, State, Trainer
    from pdl.train.model import Model
    from pdl.train.result import Result
    from pdl.train.run import evaluate, info, profile, train
    from pdl.train.using import predict

# Loaded on first use: `pdl.config` needs Task and TrainSettings from here, and these need `pdl.config`.
_LAZY = {
    "Evaluation": "loop", "Model": "model", "Result": "result", "Run": "folder", "State": "loop", "Trainer": "loop",
    "evaluate": "run", "info": "run", "predict": "using", "profile": "run", "train": "run",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f"pdl.train.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'pdl.train' has no attribute {name!r}")


__all__ = [
    "Deployment", "EarlyStop", "Evaluation", "Hook", "Loss", "Metric", "Model", "Parts", "Result", "Run", "State",
    "Task", "Tiny", "TrainSettings", "Trainer", "evaluate", "info", "predict", "profile", "train",
]  # fmt: skip
