"""Training: one loop (`Trainer`) that knows a `Task` and nothing of pixels."""

from pdl.train.assembly import Parts, assemble
from pdl.train.deployed import Deployed
from pdl.train.hooks import EarlyStop, Hook
from pdl.train.loop import Evaluation, State, Trainer
from pdl.train.metrics import Metric
from pdl.train.parts import Deployer, Reporter, SmokeTest
from pdl.train.previewing import Look, Previewer, SamplePreviewer, TextPreviewer
from pdl.train.recipe import Recipe
from pdl.train.settings import TrainSettings
from pdl.train.task import Loss, Task
from pdl.train.tracking import MLflow, Tracker, WandB

__all__ = [
    "Deployed", "Deployer", "EarlyStop", "Evaluation", "Hook", "Look", "Loss", "MLflow", "Metric", "Parts",
    "Previewer", "Recipe", "Reporter", "SamplePreviewer", "SmokeTest", "State", "Task", "TextPreviewer", "Tracker",
    "TrainSettings", "Trainer", "WandB", "assemble",
]  # fmt: skip
