"""`evaluate`: a run, or the file that is deployed, measured on the data of its own recipe."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pdl import random
from pdl.config import load
from pdl.errors import UsageError
from pdl.hub.pretrained import deferred
from pdl.runtime.bundle import Bundle, is_bundle, read
from pdl.runtime.session import of_bundle
from pdl.train.assembly import assemble
from pdl.train.deployed import Deployed
from pdl.train.loop import Evaluation
from pdl.train.loop import evaluate as evaluate_split
from pdl.train.recipe import Recipe
from pdl.train.task import SPLITS, Task
from pdl.workflow.baselines import measured_anew
from pdl.workflow.locating import require_bundle
from pdl.workflow.result import Result, identity
from pdl.workflow.run import Run


def evaluate(
    run: str | Path,
    *,
    split: str = "test",
    data: str | Path | None = None,
    overrides: Sequence[str] = (),
    weights: str | None = None,
    baselines: bool = False,
    timeout: float | None = None,
    max_memory: int | None = None,
) -> Result:
    """Measure a run, or a bundle, on a split of its data, or of other data: what lies at the path `data`, or by
    overrides=["data.test.root=..."].

    `weights` of a run is "best" or "last"; by default what its own test used. With `baselines` those of the task are
    measured on the same data; where the run's own test did that already, its numbers are taken. `timeout` is in
    seconds, for preparing a bundle and for each run of it, `max_memory` in bytes, for each run of a bundle.
    """
    if is_bundle(run):
        if weights is not None:
            raise UsageError(f"{run}: a bundle holds one set of weights; leave out --weights")
        held = {"timeout": timeout, "max_memory": max_memory}
        return evaluate_bundle(run, split=split, data=data, overrides=overrides, baselines=baselines, **held)
    require_bundle(run, timeout=timeout, max_memory=max_memory)
    folder = Run.open(run)
    overrides = [*_other_data(folder.task(folder.recipe()), split, data), *overrides]
    recipe = folder.recipe(overrides)
    check_split(recipe, split, run)
    task, seed = folder.task(recipe), recipe.settings.seed
    with random.fork_seed(seed):
        with deferred():
            parts = assemble(task, recipe, seed=seed, splits=(split,), training=False, look=True)
        named = folder.load_weights(parts.model, weights)
        evaluation = evaluate_split(task, parts.model, parts.loaders[split], split=split)
        others = _known_baselines(folder, split) if baselines and not overrides else {}
        if baselines and not others:
            others = measured_anew(task, recipe, parts.datasets[split], split)
    parameters = sum(p.size for p in parts.model.parameters())
    names = identity(folder.describe()["recipe"], folder.path, recipe)
    facts: dict[str, Any] = {"seed": seed, "parameters": parameters, "baselines": others}
    return evaluated(task, names, evaluation, weights=named, **facts)


def _known_baselines(folder: Run, split: str) -> dict[str, dict[str, float]]:
    """The baselines that the run's own test measured, if it was on this split."""
    known = Result.load(folder.result).baselines if folder.result.is_file() else {}
    same = all(key.startswith(f"{split}/") for metrics in known.values() for key in metrics)
    return known if same else {}


def _other_data(task: Task, split: str, data: str | Path | None) -> list[str]:
    """The override that reads a split from what lies at the path `data`; none without one."""
    if data is None:
        return []
    node = task.data_at(Path(data).expanduser().absolute(), split)
    return [f"data.{split}={{{', '.join(f'{key}: {_plain(value)}' for key, value in node.items())}}}"]


def _plain(value: Any) -> str:
    """A value as overrides write it."""
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_plain, value))}]"
    if isinstance(value, str):
        text = value.replace("\\", "\\\\").replace("'", "\\'").replace("${", "\\${")
        return f"'{text}'"
    return json.dumps(value)


def evaluate_bundle(
    path: str | Path,
    *,
    split: str = "test",
    data: str | Path | None = None,
    overrides: Sequence[str] = (),
    baselines: bool = False,
    **limits: Any,
) -> Result:
    """Measure a bundle on a split of its recipe's data, or of other data, as `evaluate` does.

    The bundle itself runs, so what is measured is what is deployed: stored in half the bytes, or quantised, if it is.
    With `baselines` those of its task are measured, too. `limits` are `timeout` and `max_memory` of `pdl.runtime.load`.
    UsageError for a bundle without a recipe (an imported one), and for one of another form (`pdl export --form`).
    """
    bundle = read(path)
    if form := bundle.meta["about"].get("form"):
        raise UsageError(
            f"{bundle.source}: exported with --form {form}, whose outputs are not those that are measured; give the "
            "run, or a bundle exported without --form"
        )
    overrides = [*_other_data(recipe_of(bundle).task.build(), split, data), *overrides]
    recipe = recipe_of(bundle, overrides)
    check_split(recipe, split, bundle.source)
    task: Task = recipe.task.build()
    task.vocabularies.update(bundle.vocabularies)
    task.constants.update(bundle.constants)
    model = Deployed(of_bundle(bundle, **limits))
    seed = recipe.settings.seed
    with random.fork_seed(seed):
        datasets = recipe.data.datasets((split,))
        task.prepare(recipe, datasets)
        task.check_model(model, datasets, recipe)
        loader = task.loader(datasets[split], recipe, training=False, seed=seed)
        measured = evaluate_split(task, model, loader, split=split)
        others = measured_anew(task, recipe, datasets[split], split) if baselines else {}
    about = bundle.meta["about"]
    parameters, weights = int(about.get("parameters", 0)), str(about.get("weights", "of the bundle"))
    names = identity(str(bundle.meta["name"]), Path(path), recipe)
    return evaluated(task, names, measured, seed=seed, parameters=parameters, weights=weights, baselines=others)


def evaluated(task: Task, names: Mapping[str, Any], measured: Evaluation, **facts: Any) -> Result:
    """The result of a measurement without training; `names` say of what (`identity`), `facts` are further fields."""
    return Result(
        **names,
        status="evaluated",
        epochs=0,
        steps=0,
        seconds=round(measured.seconds, 3),
        samples_per_second=None,
        metrics={**task.summary_metrics(measured), **measured.metrics},
        bounds=[*task.bounds],
        **facts,
    )


def recipe_of(bundle: Bundle, overrides: Sequence[str] = ()) -> Recipe:
    """The checked recipe that a bundle carries."""
    if not bundle.config.strip():
        raise UsageError(f"{bundle.source}: holds no recipe, so nothing says with what data to measure it")
    with TemporaryDirectory() as folder:
        file = Path(folder) / "config.yaml"
        file.write_text(bundle.config, encoding="utf-8")
        return Recipe(load(file, list(overrides), display_path=Path(bundle.source) / file.name))


def check_split(recipe: Recipe, split: str, name: str | Path) -> None:
    """UsageError, with the splits there are, unless the recipe has data for this one."""
    if split not in SPLITS:
        raise UsageError(f"there is no split {split!r}; splits are {', '.join(SPLITS)}")
    if split not in recipe.data.splits:
        have = list(recipe.data.splits)
        raise UsageError(
            f"{name}: its recipe has no data.{split}; choose {' or '.join(have)} (--split), or give data.{split}"
        )
