"""The lines that a training opens with: what is trained on what, and where."""

from __future__ import annotations

from pdl.data import Dataset
from pdl.train.assembly import Parts
from pdl.train.loop import Trainer, total_steps
from pdl.train.recipe import Recipe
from pdl.version import __version__
from pdl.workflow.result import machine


def opening(recipe: Recipe, parts: Parts, trainer: Trainer, *, verbose: bool = False) -> list[str]:
    """Data with the samples of each split, model with its parameters, length of the training, threads."""
    parameters = list(trainer.model.parameters())
    count, fixed = sum(p.size for p in parameters), sum(p.size for p in parameters if not p.requires_grad)
    frozen = f", {fixed:,} of them frozen" if fixed else ""
    steps = total_steps(trainer.loaders["train"], trainer.settings, trainer.limit)
    epochs = trainer.settings.epochs
    length = f"{epochs} epoch{'s' * (epochs != 1)}" + (f", {steps:,} steps" if steps else "")
    lines = {
        "data": ", ".join(f"{split} {samples(data)}" for split, data in parts.datasets.items()),
        "model": f"{recipe.model.target}, {count:,} parameters{frozen}",
        "train": f"{length}; * marks the best {trainer.monitor} so far" if "val" in trainer.loaders else length,
        "machine": f"{machine()['class']}, pdl {__version__}",
    }
    if verbose:
        schedule = "" if recipe.schedule is None else f", {recipe.schedule.target}"
        lines["optim"] = f"{recipe.optim.target}, lr {recipe.optim.get('lr', trainer.lr):g}{schedule}"
        lines["batches"] = f"of {recipe.data.size(training=True)}; data.workers {recipe.data.workers}"
        lines["numbers"] = f"{trainer.settings.precision}; seed {trainer.settings.seed}"
    return [f"{name:<9}{text}" for name, text in lines.items()]


def position(trainer: Trainer, *, tested: bool) -> str:
    """Where a training that is gone on with stands."""
    state = trainer.state
    done = f"{state.epoch} epoch{'s' if state.epoch != 1 else ''}, {state.step} steps"
    if not trainer.finished:
        return f"going on after {done}"
    left = "nothing is left to train; it is tested and reported again" if tested else "what is left is its test"
    return f"this run has ended after {done}: {left}"


def samples(data: object) -> str:
    """How many samples a data set has, for people."""
    return f"{len(data):,}" if isinstance(data, Dataset) else "a stream"
