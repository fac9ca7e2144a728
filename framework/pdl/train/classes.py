"""Names of classes that all splits of a recipe agree on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pdl.errors import ConfigError, DataError, listed


def agreed(known: Sequence[str], names: Sequence[str], *, split: str, what: str = "classes") -> list[str]:
    """The names that a split has in common with what is `known`, where both have some. DataError where they differ."""
    if known and names and list(names) != list(known):
        raise DataError(
            f"data.{split}: has {len(names)} {what} ({listed(names)}), expected {len(known)} ({listed(known)}); all "
            "splits need one list"
        )
    return list(known or names)


def classes_of(known: Sequence[str], datasets: Mapping[str, Any]) -> list[str]:
    """The names of the classes of all splits, at least two: those that are `known` already, else those of the data
    sets, else numbers. DataError where splits differ, or a label has no name."""
    found = list(known)
    for split, dataset in datasets.items():
        found = agreed(found, dataset.classes, split=split) or _numbered(dataset)
        labels = getattr(dataset, "labels", None)
        if labels is not None and len(labels) and not 0 <= labels.min() <= labels.max() < len(found):
            raise DataError(
                f"data.{split}: labels {labels.min()}..{labels.max()}, but {len(found)} classes are named "
                f"(0..{len(found) - 1}); correct the labels, or name all classes in task.classes"
            )
    if len(found) < 2:
        have = f"{len(found)} classes ({listed(found)})"
        raise DataError(f"the data has {have}; at least 2 are needed to tell them apart")
    return found


def _numbered(dataset: Any) -> list[str]:
    labels = getattr(dataset, "labels", None)
    if labels is None or not len(labels):
        raise ConfigError("the data set names no classes; list them in task.classes")
    return [str(i) for i in range(int(labels.max()) + 1)]
