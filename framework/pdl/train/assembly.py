"""`assemble`: data sets, model and loaders of a recipe, built in the order in which each needs what is before it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pdl.data import WeightedSampler
from pdl.data.checks import check_files
from pdl.errors import ConfigError, UsageError
from pdl.nn import Module, init
from pdl.train.recipe import Recipe
from pdl.train.task import SPLITS, Task, first_samples


@dataclass
class Parts:
    """What a task builds: a model, and a re-iterable source of batches for every split it has ("train", and maybe
    "val" and "test"); `datasets` are what these read, as `prepare` left them.

    A loader may offer `set_epoch(e)`, `len()`, and `state_dict` / `load_state_dict` for its position
    (`pdl.data.DataLoader` does);
    without the latter a resumed run skips the batches it has seen.
    """

    model: Module
    loaders: dict[str, Iterable[Any]]
    datasets: Mapping[str, Any] = field(default_factory=dict)


def assemble(
    task: Task,
    recipe: Recipe,
    *,
    seed: int = 0,
    splits: Sequence[str] = SPLITS,
    training: bool = True,
    overfit: int = 0,
    look: bool = False,
) -> Parts:
    """Data sets, then the model, then the loaders.

    With `look` files that cannot be read are a DataError now and not when their batch comes (`check_files`), unless
    they are to be left out. Without `training` the training data, too, comes in order and unchanged. With `overfit`
    that many samples of it are both training and validation data.
    """
    if overfit and not task.overfits:
        raise UsageError(f"overfit: the data of {type(task).__name__} has no samples that could be learned by heart")
    datasets = recipe.data.datasets(("train",) if overfit else splits)
    if overfit:
        datasets = {"train": first_samples(datasets["train"], overfit)}
    if look and recipe.data.on_error == "error":
        check_files(datasets)
    task.prepare(recipe, datasets)
    model = compressed(task.model(recipe), recipe)
    task.check_model(model, datasets, recipe)
    learning = training and (not overfit or task.overfits == "training")
    if overfit:
        datasets["val"] = datasets["train"]
    loaders = {
        name: task.loader(data, recipe, training=learning and name == "train", seed=seed)
        for name, data in datasets.items()
    }
    drawn = isinstance(getattr(loaders.get("train"), "sampler", None), WeightedSampler)
    if learning and recipe.data.balanced and "train" in loaders and not drawn:
        raise ConfigError(f"data.balanced: {type(task).__name__} does not draw its training samples one by one here; "
                          "leave it out, or weigh the classes where the task can (task.class_weights)")  # fmt: skip
    parts = Parts(model, loaders, datasets)
    task.assembled(parts, recipe, training=training)
    return parts


def restored(task: Task, recipe: Recipe) -> Module:
    """The model of a run, from its config alone, for weights that follow: no data set is opened, no weight is drawn."""
    with init.skipped():
        return compressed(task.model(recipe), recipe)


def compressed(model: Module, recipe: Recipe) -> Module:
    """The model in the form that the recipe's `compress` gives it."""
    return model if recipe.compress is None else recipe.compress.applied(model)


def learned_config(task: Task, recipe: Recipe) -> dict[str, Any]:
    """What was inferred from the data, as keys to lay over the recipe: {"task": {"classes": [...]}, "model":
    {"num_classes": 3}}."""
    model = recipe.model.infer(task.facts(recipe), outer=task.outermost)
    found = {"task": task.learned_config(), "model": model}
    return {section: values for section, values in found.items() if values}
