"""`prune`: a run whose net has fewer channels, as a run folder of its own: it is evaluated, exported and asked as any
run is, and a training begins with it (`compress.weights`)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from pdl import random
from pdl.config import from_dict
from pdl.data import Dataset, Subset
from pdl.errors import TraceError, UsageError
from pdl.export.from_hub import bundle_of
from pdl.hints import Range
from pdl.hub.pretrained import deferred, load_state
from pdl.hub.states import read_state
from pdl.nn import Module
from pdl.nn.norm import _BatchNorm
from pdl.program import Program, trace
from pdl.pruning import choosing, cutting
from pdl.pruning.coupling import Coupling
from pdl.runtime.bundle import read
from pdl.tensor import no_grad
from pdl.train.assembly import Parts, assemble, restored
from pdl.train.loop import better, evaluate
from pdl.train.recipe import Recipe
from pdl.train.task import Task
from pdl.workflow.evaluation import recipe_of
from pdl.workflow.run import Run, overlaid

SPLITS = ("train", "val")
COUNTED: tuple[choosing.Measure, ...] = ("macs", "parameters")


@dataclass(frozen=True, kw_only=True)
class Pruning:
    """Channels to take out of a trained net.

    left      what shall be left of the cost
    of        the cost: multiply-adds ("macs"), "parameters", or "latency" by a table measured on this machine
    by        which channels of a layer go: "l1", "fpgm", "norm" or "taylor" (`pdl.pruning.choosing.importance`)
    ratios    how many: the same share of each layer ("uniform"), or by how much worse the validation data get without
              ("sensitivity")
    align     channels that stay are a multiple of this, where a layer has more than that
    samples   of the validation data that sensitivities are measured on; training samples of "taylor" and of the batch
              norms, whose statistics are taken anew
    """

    left: Annotated[float, Range(above=0, below=1)] = 0.5
    of: Literal["macs", "parameters", "latency"] = "macs"
    by: Literal["l1", "fpgm", "norm", "taylor"] = "fpgm"
    ratios: Literal["uniform", "sensitivity"] = "uniform"
    align: Annotated[int, Range(1)] = 1
    samples: Annotated[int, Range(1)] = 512


@dataclass(frozen=True)
class Pruned:
    """The new run, and what it came to: costs and validation metrics before and after (without training), and the
    channels that each group of layers keeps."""

    path: Path
    costs: Mapping[str, tuple[float, float]]
    metrics: Mapping[str, tuple[float, float]]
    groups: Sequence[tuple[str, int, int]]

    def to_dict(self) -> dict[str, Any]:
        """Plain values, fit for JSON."""
        return {
            "path": str(self.path),
            "costs": {name: {"before": a, "after": b} for name, (a, b) in self.costs.items()},
            "metrics": {name: {"before": a, "after": b} for name, (a, b) in self.metrics.items()},
            "groups": [{"name": name, "channels": n, "left": left} for name, n, left in self.groups],
        }


def prune(
    run: str | Path,
    out: str | Path,
    pruning: Pruning | None = None,
    *,
    overrides: Sequence[str] = (),
    weights: str | None = None,
) -> Pruned:
    """Write a run folder `out` with fewer channels than `run`. Nothing is trained but the statistics of batch norms,
    and nothing is looked at but training and validation data.

    UsageError where no channel may go, the cost cannot be reached, or sensitivities lack validation data.
    """
    pruning = pruning or Pruning()
    folder = Run.open(run)
    recipe = folder.recipe(overrides)
    if recipe.compress is not None and recipe.compress.int8 is not None:
        raise UsageError(f"{run}: its net is rounded to bytes already; channels go before that")
    task, seed = folder.task(recipe), recipe.settings.seed
    with random.fork_seed(seed):
        with deferred():
            parts = assemble(task, recipe, seed=seed, splits=SPLITS, training=False)
        which = folder.load_weights(parts.model, weights)
        model, few = parts.model, _few(task, recipe, parts, pruning.samples)
        coupling = coupled(task, model, next(iter(few["train"])))
        if not coupling.groups:
            raise UsageError(f"{run}: every channel of its net is tied to what it reads or answers; none can go")
        measures = {name: choosing.Costs(coupling, name) for name in (*COUNTED, pruning.of)}
        none = [0] * len(coupling.groups)
        before = evaluate(task, model, few["val"], split="val").metrics if "val" in few else {}
        worth = choosing.importance(coupling, model, pruning.by, _gradients(task, model, few["train"]))
        counts = _counts(pruning, coupling, measures[pruning.of], worth, task, recipe, model, few.get("val"), before)
        costs = {str(name): (measure(none), measure(counts)) for name, measure in measures.items()}
        shapes = cutting.cut(model, coupling, choosing.least(coupling, worth, counts))
        retaken(task, model, few["train"])
        after = evaluate(task, model, few["val"], split="val").metrics if "val" in few else {}
    path = _written(folder, Path(out), recipe, task, model, shapes, which)
    return Pruned(
        path,
        costs,
        {name: (value, after[name]) for name, value in before.items()},
        [(g.name, len(g.units), len(g.units) - n) for g, n in zip(coupling.groups, counts, strict=True)],
    )


def coupled(task: Task, model: Module, batch: Any) -> Coupling:
    """What of a net is coupled, by the task's own step and evaluation of a batch. UsageError where they cannot be
    traced."""
    programs: list[Program] = []
    try:
        for training in (True, False):
            model.train(training)
            function = task.step if training else task.evaluate
            with no_grad():
                programs.append(trace(lambda x, f=function: f(model, x), batch, modules=[model]))
    except TraceError as error:
        raise UsageError(f"channels are found in the net's program, but its code cannot be traced: {error}") from error
    finally:
        model.eval()
    return Coupling(model, programs, float(task.evaluate(model, batch).weight))


def _counts(
    pruning: Pruning,
    coupling: Coupling,
    cost: choosing.Costs,
    worth: Sequence[Any],
    task: Task,
    recipe: Recipe,
    model: Module,
    val: Any,
    before: Mapping[str, float],
) -> list[int]:
    """How many channels of each group go."""
    if pruning.ratios == "uniform":
        return choosing.uniform(coupling, cost, pruning.left, pruning.align)
    if val is None:
        raise UsageError("prune.ratios=sensitivity: the recipe has no data.val to measure on; choose uniform ones")
    monitor, mode = task.monitored(recipe.settings)
    state = {name: tensor._data.copy() for name, tensor in coupling.tensors.items()}

    def damage(number: int, share: float) -> float:
        counts = [0] * len(coupling.groups)
        counts[number] = choosing.most(coupling.groups[number], share, 1)
        cutting.mask(coupling, choosing.least(coupling, worth, counts))
        found = evaluate(task, model, val, split="val").metrics[monitor]
        for name, array in state.items():
            coupling.tensors[name]._data[...] = array
        worse = abs(found - before[monitor])
        return worse if better(before[monitor], found, mode) else 0.0

    return choosing.by_damage(coupling, cost, pruning.left, damage, pruning.align)


def _few(task: Task, recipe: Recipe, parts: Parts, samples: int) -> dict[str, Iterable[Any]]:
    """Loaders of a part of each split, spread over the whole of it, in order and as for evaluation."""
    found: dict[str, Iterable[Any]] = {}
    for split, dataset in parts.datasets.items():
        if isinstance(dataset, Dataset) and len(dataset) > samples:
            dataset = Subset(dataset, np.linspace(0, len(dataset) - 1, samples).astype(int).tolist())
        found[split] = task.loader(dataset, recipe, training=False, seed=0)
    return found


def _gradients(task: Task, model: Module, loader: Iterable[Any]) -> Iterator[None]:
    """The gradient of one batch after the other, with the statistics of evaluation."""
    model.eval()
    for batch in loader:
        model.zero_grad()
        task.step(model, batch).value.backward()
        yield
    model.zero_grad()


def retaken(task: Task, model: Module, loader: Iterable[Any]) -> None:
    """Take the statistics of batch norms anew: the mean over the batches of a loader. Nothing else changes."""
    norms = [m for m in model.modules() if isinstance(m, _BatchNorm) and m.running_mean is not None]
    momenta = [norm.momentum for norm in norms]
    if not norms:
        return
    try:
        for norm in model.modules():
            norm.training = norm in norms
        with no_grad():
            for count, batch in enumerate(loader, 1):
                for norm in norms:
                    norm.momentum = 1 / count
                task.step(model, batch)
    finally:
        for norm, momentum in zip(norms, momenta, strict=True):
            norm.momentum = momentum
        model.eval()


def _written(
    folder: Run, out: Path, recipe: Recipe, task: Task, model: Module, shapes: Mapping[str, Any], which: str
) -> Path:
    """The run folder: the recipe with the shapes, and a checkpoint."""
    known = (recipe.compress.shapes if recipe.compress is not None else None) or {}
    section = {"shapes": {**known, **shapes}, "weights": None, "distil": None}
    about = {**folder.describe(), "pruned": {"of": str(folder.path), "weights": which}}
    return write_run(out, recipe, task, model, {"compress": section}, about)


def write_run(
    out: Path, recipe: Recipe, task: Task, model: Module, over: Mapping[str, Any], about: Mapping[str, Any]
) -> Path:
    """A run folder that was not trained: the recipe with keys laid `over` it, the names that the task has learned, and
    the weights of the model as its best checkpoint."""
    config = replace(
        from_dict(overlaid(recipe.config.plain(), dict(over))),
        path=recipe.config.path,
        overrides=recipe.config.overrides,
    )
    with Run.new(out, str(about["recipe"])) as new:
        new.keep(config, task, model, about)
    return new.path


def run_of(word: str | Path, out: Path) -> Path:
    """The run folder that a word names; of a bundle or a name of the hub a new one, `out`, with its recipe and weights,
    made once."""
    if (Path(word) / "config.yaml").is_file():
        return Path(word)
    if (out / "config.yaml").is_file():
        return out
    file = bundle_of(word)
    bundle = read(file)
    recipe = recipe_of(bundle)
    task: Task = recipe.task.build()
    task.vocabularies.update(bundle.vocabularies)
    task.constants.update(bundle.constants)
    with deferred():
        model = restored(task, recipe)
    state, own = read_state(file), dict(model.named_buffers())
    kept = {name: array for name, array in state.arrays.items() if name not in own or own[name].persistent}
    load_state(model, replace(state, arrays=kept))
    about = {"recipe": str(bundle.meta["name"]), "mode": {}, "learned": {}, "bundle": str(word)}
    return write_run(out, recipe, task, model, {}, about)
