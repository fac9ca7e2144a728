"""What one does with a recipe, a run or a model: plain functions, which the commands and notebooks call.

    result = pdl.workflow.train(pdl.config.load("configs/cv/digits_lenet.yaml"), run="runs/digits")
    pdl.workflow.evaluate("runs/digits", split="val").metrics
    pdl.workflow.predict("runs/digits", ["photo.png"], topk=3)
    pdl.workflow.export("runs/digits", "digits.pdl")
    pdl.workflow.info("runs/digits")
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pdl.workflow.chat import Chat
    from pdl.workflow.comparing import compare
    from pdl.workflow.compression import compress
    from pdl.workflow.converting import convert
    from pdl.workflow.ensembling import ensemble
    from pdl.workflow.evaluation import evaluate
    from pdl.workflow.exporting import export
    from pdl.workflow.leaderboards import leaderboard
    from pdl.workflow.listing import runs
    from pdl.workflow.model import Model
    from pdl.workflow.new_recipe import init
    from pdl.workflow.packaging import package
    from pdl.workflow.planning import plan
    from pdl.workflow.prediction import predict
    from pdl.workflow.previewing import preview
    from pdl.workflow.rate_test import lr_find
    from pdl.workflow.result import Result
    from pdl.workflow.run import Run
    from pdl.workflow.run_info import info
    from pdl.workflow.sweeps import sweep
    from pdl.workflow.training import profile, train
    from pdl.workflow.vocabularies import vocab

#: loaded when first asked for: none of them needs all of the others
_LAZY = {
    "Chat": "chat", "Model": "model", "Result": "result", "Run": "run", "compare": "comparing",
    "compress": "compression", "convert": "converting", "ensemble": "ensembling",
    "evaluate": "evaluation", "export": "exporting", "info": "run_info",
    "init": "new_recipe", "leaderboard": "leaderboards", "lr_find": "rate_test", "package": "packaging",
    "plan": "planning", "predict": "prediction", "preview": "previewing", "profile": "training", "runs": "listing",
    "sweep": "sweeps",
    "train": "training", "vocab": "vocabularies",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        return getattr(import_module(f"pdl.workflow.{_LAZY[name]}"), name)
    raise AttributeError(f"module 'pdl.workflow' has no attribute {name!r}")


__all__ = [
    "Chat", "Model", "Result", "Run", "compare", "compress", "convert", "ensemble", "evaluate", "export", "info",
    "init", "leaderboard", "lr_find", "package", "plan", "predict", "preview", "profile", "runs", "sweep",
    "train", "vocab",
]  # fmt: skip
