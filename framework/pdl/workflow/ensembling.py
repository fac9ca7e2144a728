"""`ensemble`: one run of several, whose answers are the mean of theirs."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from pdl import random
from pdl.config import diff, from_dict
from pdl.config.signature import TARGET
from pdl.errors import UsageError
from pdl.hub.pretrained import deferred
from pdl.nn import Ensemble
from pdl.train.assembly import Parts, assemble
from pdl.train.log import append_log
from pdl.train.loop import Evaluation
from pdl.train.loop import evaluate as evaluate_split
from pdl.train.recipe import Recipe
from pdl.train.task import Task
from pdl.workflow.exporting import FILE, deployment_of, describe, write_bundle
from pdl.workflow.report import write_report
from pdl.workflow.result import Result, identity
from pdl.workflow.run import Run

SAME = ("task", "data.val", "data.test", "data.transforms.eval")
"""What members must agree on: what is asked, and of what."""


def ensemble(runs: Sequence[str | Path], *, run: str | Path | None = None) -> Result:
    """Average runs: a new run folder (by default runs/<recipe>-ensemble-<n>) whose model is `pdl.nn.Ensemble` of
    theirs, each with the weights that its own test used, measured on val and test, with report and bundle.

    Their recipes may differ in model, optimiser, schedule, seed and how training data is read. UsageError where they
    differ in the task, in what it is measured on, or in the classes and words that were learned from the data, and for
    tasks that ask more of a net than an answer to average.
    """
    folders = list({each.path.resolve(): each for each in map(Run.open, runs)}.values())
    if len(folders) < 2:
        raise UsageError("which runs? name two at least: pdl ensemble RUN RUN")
    first, recipes = folders[0], [folder.recipe() for folder in folders]
    for folder, recipe in zip(folders, recipes, strict=True):
        _require_same(first, recipes[0], folder, recipe)
    tree = recipes[0].config.plain()
    tree["model"] = {TARGET: "pdl.nn.Ensemble", "members": [_node(recipe) for recipe in recipes]}
    whole = from_dict(tree)
    recipe = Recipe(replace(whole, kept=recipes[0].config.kept))
    name = f"{first.describe()['recipe'].removesuffix('-ensemble')}-ensemble"
    with Run.new(run, name) as made, random.fork_seed(recipe.settings.seed), _asked_for_answers(recipe):
        task = first.task(recipe)
        splits = [split for split in ("val", "test") if split in recipe.data.splits] or ["train"]
        with deferred():
            parts = assemble(task, recipe, seed=recipe.settings.seed, splits=splits, training=False, look=True)
        for folder, member in zip(folders, parts.model.get_submodule("members").children(), strict=True):
            folder.load_weights(member)
        members = [str(folder.path.resolve()) for folder in folders]
        made.keep(recipe.config, task, parts.model, {**first.describe(), "recipe": name, "members": members})
        return _measured(made, name, recipe, task, parts, splits, folders)


def members_of(folder: Path) -> list[str]:
    """The paths of the runs that an ensemble's folder is of; [] of any other."""
    return list(Run(folder).describe().get("members", ()))


def _node(recipe: Recipe) -> dict[str, Any]:
    """The model of a run as a member: its weights are there already."""
    return {key: value for key, value in recipe.config.plain()["model"].items() if key != "pretrained"}


def _require_same(first: Run, recipe: Recipe, other: Run, its: Recipe) -> None:
    """UsageError unless two runs answer the same question, measured alike."""
    for folder, each in ((first, recipe), (other, its)):
        if each.compress is not None:
            raise UsageError(f"{folder.path}: a compressed run; average what it was made of, and compress that")
    apart = [each for each in diff(recipe.config, its.config) if each.key.startswith(SAME)]
    if apart:
        lines = "\n".join(f"  {each}" for each in apart)
        raise UsageError(f"{other.path}: it differs from {first.path} in what is asked, or of what data:\n{lines}")
    (words, arrays), (others, constants) = _learned(first), _learned(other)
    if words != others or arrays.keys() != constants.keys() or any(
        not np.array_equal(array, constants[name]) for name, array in arrays.items()
    ):  # fmt: skip
        raise UsageError(f"{other.path}: it has learned other names from its data than {first.path}; train on the same")


def _learned(run: Run) -> tuple[dict[str, str], dict[str, np.ndarray]]:
    return {name: each.text() for name, each in run.vocabularies.items()}, run.constants


@contextmanager
def _asked_for_answers(recipe: Recipe) -> Iterator[None]:
    """UsageError where a task asks an ensemble for what only its members have."""
    try:
        yield
    except AttributeError as error:
        if not isinstance(error.obj, Ensemble):
            raise
        raise UsageError(
            f"{recipe.task.target} asks its model for `{error.name}`, of which there is no mean: only models that are "
            "called and answer in numbers can be averaged"
        ) from error


def _measured(
    folder: Run, name: str, recipe: Recipe, task: Task, parts: Parts, splits: Sequence[str], members: Sequence[Run]
) -> Result:
    """Measure, and write result, report and bundle."""
    found: dict[str, Evaluation] = {
        split: evaluate_split(task, parts.model, parts.loaders[split], split=split) for split in splits
    }
    last = found[splits[-1]]
    metrics = {**task.summary_metrics(last), **last.metrics}
    for evaluation in found.values():
        metrics |= {key: value for key, value in evaluation.metrics.items() if key not in metrics}
    deployer = task.deployer(recipe)
    paths = [str(member.path) for member in members]
    result = Result(
        **identity(name, folder.path, recipe), status=f"ensemble of {len(members)}", seed=recipe.settings.seed,
        epochs=0, steps=0,
        seconds=round(sum(each.seconds for each in found.values()), 3), samples_per_second=None,
        parameters=sum(p.size for p in parts.model.parameters()), weights=f"best of {', '.join(paths)}",
        metrics=metrics, selection="The mean of the answers of several runs; nothing was learned or chosen anew.",
        next=f"pdl predict {shlex.quote(str(folder.path))} {deployer.example(parts.loaders, folder.path)}",
    )  # fmt: skip
    result.save(folder.result)
    append_log(folder.path / "metrics.jsonl", {"kind": "test", "step": 0, **metrics, "weights": result.weights})
    dataset = getattr(parts.loaders[splits[-1]], "dataset", None)
    monitored = task.monitored(recipe.settings)
    if recipe.settings.report:
        write_report(folder.path, recipe, result, task, last, dataset, monitored=monitored, datasets=parts.datasets)
    if recipe.settings.export:
        deployment = deployment_of(deployer, parts.model, dataset)
        describe(deployment, deployer.card(parts.model), metrics, result, weights=result.weights)
        write_bundle(folder.path / FILE, deployment, folder, metrics)
    return result
