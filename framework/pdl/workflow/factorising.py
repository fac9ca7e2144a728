"""`factorise`: a run whose layers have low ranks, as a run folder of its own, which a training begins with
(`compress.weights`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from pdl import random
from pdl.errors import UsageError
from pdl.hints import Range
from pdl.hub.pretrained import deferred
from pdl.nn import Module
from pdl.pruning import ranks
from pdl.tensor import no_grad
from pdl.train.assembly import assemble
from pdl.train.loop import better, evaluate
from pdl.train.task import Task
from pdl.workflow.pruning import SPLITS, _few, coupled, retaken, write_run
from pdl.workflow.run import Run

CLOSE = 1e-2  # of the largest output: how far a layer in two steps may be from one with the same weight


@dataclass(frozen=True, kw_only=True)
class LowRank:
    """Weights of linear layers and convolutions as products of two smaller ones: of a convolution, one by its window to
    few channels and one from those to its outputs.

    left      what shall be left of the cost
    of        the cost: multiply-adds ("macs") or "parameters"
    by        how low: the same share of the squares of the singular values ("energy") everywhere, or by how much worse
              the validation data get ("sensitivity")
    samples   of the validation data that sensitivities are measured on; training samples that the statistics of batch
              norms are taken anew of
    """

    left: Annotated[float, Range(above=0, below=1)] = 0.5
    of: Literal["macs", "parameters"] = "macs"
    by: Literal["energy", "sensitivity"] = "energy"
    samples: Annotated[int, Range(1)] = 512


@dataclass(frozen=True)
class Factorised:
    """The new run, and what it came to: costs and validation metrics before and after (without training), and the ranks
    of layers."""

    path: Path
    costs: Mapping[str, tuple[float, float]]
    metrics: Mapping[str, tuple[float, float]]
    ranks: Mapping[str, int]


def factorise(run: str | Path, out: str | Path, given: LowRank | None = None) -> Factorised:
    """Write a run folder `out` with layers of lower rank than those of `run`. Nothing is trained but the statistics of
    batch norms, and nothing is looked at but training and validation data.

    UsageError where no layer may have a lower rank, the cost cannot be reached, or sensitivities lack validation data.
    """
    given, folder = given or LowRank(), Run.open(run)
    recipe = folder.recipe()
    if recipe.compress is not None and (recipe.compress.int8 is not None or recipe.compress.ranks):
        what = "rounded to bytes" if recipe.compress.int8 is not None else "of low rank"
        raise UsageError(f"{run}: its net is {what} already; ranks are lowered once, before rounding")
    task, seed = folder.task(recipe), recipe.settings.seed
    with random.fork_seed(seed):
        with deferred():
            parts = assemble(task, recipe, seed=seed, splits=SPLITS, training=False)
        which = folder.load_weights(parts.model)
        model, few = parts.model, _few(task, recipe, parts, given.samples)
        batch = next(iter(few["train"]))
        coupling = coupled(task, model, batch)
        found = [layer for layer in ranks.layers(model, coupling.products) if _works(task, model, batch, layer)]
        if not found:
            raise UsageError(f"{run}: no layer of its net can be a product of two smaller ones")
        other = {name: _others(found, coupling.products, coupling.tensors, name) for name in ("macs", "parameters")}

        def cost(chosen: Sequence[int | None], measure: str = given.of) -> float:
            return other[measure] + sum(each.cost(r, measure) for each, r in zip(found, chosen, strict=True))

        before = evaluate(task, model, few["val"], split="val").metrics if "val" in few else {}
        if given.by == "energy":
            chosen = ranks.by_energy(found, cost, given.left)
        elif "val" not in few:
            raise UsageError("low_rank.by=sensitivity: the recipe has no data.val to measure on; choose energy")
        else:
            monitor, mode = task.monitored(recipe.settings)

            def damage(layer: ranks.Layer, rank: int) -> float:
                with ranks.tried(model, layer, rank):
                    now = evaluate(task, model, few["val"], split="val").metrics[monitor]
                return abs(now - before[monitor]) if better(before[monitor], now, mode) else 0.0

            chosen = ranks.by_damage(found, cost, given.left, damage)
        none: list[int | None] = [None] * len(found)
        costs = {name: (cost(none, name), cost(chosen, name)) for name in other}
        made = {each.name: rank for each, rank in zip(found, chosen, strict=True) if rank is not None}
        for layer in found:
            if layer.name in made:
                ranks.factor(model, layer, made[layer.name])
        retaken(task, model, few["train"])
        after = evaluate(task, model, few["val"], split="val").metrics if "val" in few else {}
    section: dict[str, Any] = {"ranks": made, "weights": None, "distil": None}
    about = {**folder.describe(), "low_rank": {"of": str(folder.path), "weights": which}}
    path = write_run(Path(out), recipe, task, model, {"compress": section}, about)
    return Factorised(path, costs, {name: (value, after[name]) for name, value in before.items()}, made)


def _others(found: Sequence[ranks.Layer], products: Sequence[Any], tensors: Mapping[str, Any], measure: str) -> float:
    """The cost of all that is not these layers."""
    own = {f"{each.name}.weight" for each in found}
    if measure == "macs":
        return float(sum(product.adds for product in products if product.name not in own))
    return float(sum(tensor.size for name, tensor in tensors.items() if name not in own and tensor.requires_grad))


def _works(task: Task, model: Module, batch: Any, layer: ranks.Layer) -> bool:
    """Whether a net takes a layer in two steps in the place of one, and answers as with one of the same weight: it may
    use the weight itself, or another one in its place."""
    old = model.get_submodule(layer.name)
    with no_grad():
        with ranks.tried(model, layer, layer.most):
            wanted = float(task.evaluate(model, batch).value)
        ranks.factor(model, layer, layer.most)
        try:
            found = float(task.evaluate(model, batch).value)
        except (AttributeError, TypeError):
            return False
        finally:
            ranks.put(model, layer.name, old)
    return bool(np.isclose(found, wanted, rtol=CLOSE, atol=1e-6))
