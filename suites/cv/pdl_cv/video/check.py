"""Look clips over before training: what cannot be read, leaks between splits, clips without motion."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from pdl.data import Dataset, Fault
from pdl.data import check as check_data
from pdl.data.checks import Progress
from pdl.train import Recipe
from pdl_cv.data.clips import Glimpses
from pdl_cv.video.clips import kind_of


def check(recipe: Recipe, progress: Progress | None = None) -> list[Fault]:
    """Faults of the clips of a recipe, by a few frames of each."""
    sources = {split: _glimpsed(part.build) for split, part in recipe.data.splits.items()}
    return check_data(sources, num_classes=recipe.model.get("num_classes"), progress=progress, inspect=inspect)


def _glimpsed(source: Callable[[], Dataset]) -> Callable[[], Dataset]:
    return lambda: Glimpses(source())


def inspect(split: str, dataset: Dataset, index: int, sample: Any) -> Iterator[tuple[str, Fault]]:
    """Warnings about a sample, each with its kind; see `pdl.data.check`."""
    x, path = sample[kind_of(sample)], dataset.path_of(index)
    if (x == x[:1]).all():
        what = "its frames are all the same" if x.any() else "its numbers are all 0"
        yield "still", Fault(path, index, what, "remove it, or repair it", split=split, severity="warning")
