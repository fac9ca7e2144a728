"""Look recordings over before training: what cannot be read, silence, clipping, rates, leaks between splits."""

from __future__ import annotations

from pdl.data import Fault
from pdl.data import check as check_data
from pdl.data.checks import Progress
from pdl.train import Recipe
from pdl_speech.faults import inspect


def check(recipe: Recipe, progress: Progress | None = None) -> list[Fault]:
    """Faults of the recordings of a recipe."""
    sources = {split: part.build for split, part in recipe.data.splits.items()}
    return check_data(sources, num_classes=recipe.model.get("num_classes"), progress=progress, inspect=inspect)
