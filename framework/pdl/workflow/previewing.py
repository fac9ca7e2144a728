"""`preview`: a page of samples as training and evaluation will see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pdl import random
from pdl.config import Config
from pdl.data import Dataset
from pdl.errors import UsageError, listed
from pdl.hub.pretrained import deferred
from pdl.report import Section, document, facts
from pdl.train.assembly import assemble
from pdl.train.previewing import Look
from pdl.train.recipe import Recipe
from pdl.train.task import Task
from pdl.workflow.evaluation import check_split
from pdl.workflow.run import CONFIG


@dataclass(frozen=True)
class Preview:
    """What `preview` found: facts on the data, and the sections of the page."""

    title: str
    facts: dict[str, Any]
    sections: list[Section]

    def page(self) -> str:
        """An HTML page that needs nothing else."""
        return document(
            self.title,
            [Section("Data", facts((name, str(value)) for name, value in self.facts.items())), *self.sections],
        )


def preview(
    recipe: Recipe | Config, *, split: str = "train", samples: int = 8, versions: int = 6, seed: int | None = None
) -> Preview:
    """Samples of a split as the recipe's loaders give them, with the randomness that a training has: of images the
    original, `versions` of it as the first epochs see it, and what evaluation sees; of other data the first batches.

    seed   in place of train.seed

    Nothing is trained or written, and no weights are read; the model is built only where the task's loaders need it.
    UsageError for a split that the recipe does not have.
    """
    if samples < 1 or versions < 1:
        raise UsageError(f"preview: samples ({samples}) and versions ({versions}) must be at least 1")
    recipe = recipe if isinstance(recipe, Recipe) else Recipe(recipe)
    check_split(recipe, split, recipe.name)
    task: Task = recipe.task.build()
    look = Look(split, samples, versions, recipe.settings.seed if seed is None else seed)
    previewer = task.previewer(recipe)
    with random.fork_seed(look.seed), deferred():
        if previewer.needs_model:
            datasets = assemble(task, recipe, seed=look.seed, splits=("train", split)).datasets
        else:
            datasets = recipe.data.datasets((split,))
            task.prepare(recipe, datasets)
        sections = previewer.sections(datasets[split], look)
    path = recipe.config.path
    name = path.parent.name if path is not None and path.name == CONFIG else recipe.name
    return Preview(f"{name}: data.{split}", _facts(recipe, datasets[split], look), sections)


def _facts(recipe: Recipe, dataset: Any, look: Look) -> dict[str, Any]:
    classes = list(getattr(dataset, "classes", ()))
    named = {"classes": f"{len(classes)}: {listed(classes)}"} if classes else {}
    return {
        "task": recipe.task.target,
        f"data.{look.split}": recipe.data.splits[look.split].target,
        "samples": len(dataset) if isinstance(dataset, Dataset) else "a stream",
        **named,
        "seed": look.seed,
    }
