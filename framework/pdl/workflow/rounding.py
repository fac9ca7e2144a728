"""`round_run`: a run whose net has the roundings of bytes in it, as a run folder of its own, which a training begins
with (`compress.weights`) to learn with them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pdl import random
from pdl.errors import UsageError
from pdl.export.quantise.aware import Rounded, described
from pdl.export.symbolic import trace_symbolic
from pdl.hints import Range
from pdl.hub.pretrained import deferred
from pdl.tensor import no_grad
from pdl.train.assembly import assemble
from pdl.train.distillation import heard
from pdl.workflow.compression import _of_split
from pdl.workflow.exporting import deployment_of
from pdl.workflow.measuring import require_same_net
from pdl.workflow.pruning import write_run
from pdl.workflow.run import Run


@dataclass(frozen=True, kw_only=True)
class Rounding:
    """How ranges of activations are found before training: on so many training samples, by one of `METHODS`; `keep`:
    products that stay in floats."""

    method: Literal["mse", "entropy", "percentile", "minmax"] = "mse"
    samples: Annotated[int, Range(1)] = 512
    keep: Literal["", "first", "last", "both"] = ""


def round_run(run: str | Path, out: str | Path, rounding: Rounding | None = None) -> Path:
    """Write a run folder `out`: the net of `run` with ranges from training data. UsageError where the net is rounded
    already, has nothing to put on bytes, or is not called in training."""
    rounding, folder = rounding or Rounding(), Run.open(run)
    recipe = folder.recipe()
    if recipe.compress is not None and recipe.compress.int8 is not None:
        raise UsageError(f"{run}: its net is rounded to bytes already")
    task, seed = folder.task(recipe), recipe.settings.seed
    with random.fork_seed(seed):
        with deferred():
            parts = assemble(task, recipe, seed=seed, splits=("train",), training=False)
        folder.load_weights(parts.model)
        deployment = deployment_of(task.deployer(recipe), parts.model, parts.datasets["train"])
        require_same_net(deployment, parts.model)
        program, _ = trace_symbolic(deployment.module, deployment.inputs)
        data = parts.datasets["train"]
        with no_grad(), heard([parts.model]) as asked:
            task.step(parts.model, next(iter(task.loader(data, recipe, training=False, seed=seed))))
        if not asked[id(parts.model)] and not getattr(parts.model, "rounded_in", ""):
            raise UsageError(
                f"{run}: in training {type(task).__name__} asks its net by other ways than calling it, so what is "
                "learned with roundings would not be what is deployed; leave out `round`: int8 rounds the trained net"
            )
        batches = _of_split(task, parts.model, deployment, program, recipe, data, rounding.samples)
        made = Rounded(parts.model.eval(), deployment.inputs, rounding.keep)
        made.calibrate(batches, rounding.method)
    section: dict[str, Any] = {"inputs": described(deployment.inputs), "keep": rounding.keep}
    over = {"compress": {"int8": section, "weights": None, "distil": None}}
    return write_run(Path(out), recipe, task, made, over, {**folder.describe(), "rounded": str(folder.path)})
