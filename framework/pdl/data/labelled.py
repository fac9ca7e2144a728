"""Data sets of files with a class each, and how splits and smaller problems are cut out of labelled samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated

import numpy as np

from pdl.data.dataset import Dataset, digest
from pdl.data.randomness import BatchRandom
from pdl.data.splits import check_ratios, stratified_split
from pdl.errors import ConfigError
from pdl.hints import Range
from pdl.suites import suggest

PerClass = Annotated[int, Range(1)] | None


class LabelledFiles(Dataset):
    """Files that are read on access, each of a class; a subclass reads them. Recipes give

    per_class  only so many files of each class (of this split), drawn with `seed`
    """

    foldable = True

    def __init__(
        self,
        root: Path,
        paths: Sequence[str],
        labels: Sequence[int] | np.ndarray,
        classes: Sequence[str],
        *,
        per_class: PerClass = None,
        seed: Annotated[int, Range(0)] = 0,
    ) -> None:
        self.root, self.paths, self.classes = root, list(paths), list(classes)
        self._labels = np.asarray(labels, np.int64)
        if per_class is not None:
            owner = type(self).__name__
            rows, self._labels, _ = choose(owner, self._labels, classes, only=None, per_class=per_class, seed=seed)
            self.paths = [self.paths[row] for row in rows]

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def labels(self) -> np.ndarray:
        return self._labels

    @cached_property
    def fingerprint(self) -> str:
        """A hash of relative paths, file sizes, labels and class names; the contents are not read."""
        return digest(*self.classes, *self.paths, self._labels, np.array([self._size(p) for p in self.paths], np.int64))

    def _size(self, path: str) -> int:
        try:
            return (self.root / path).stat().st_size
        except OSError:  # reported when the sample is read
            return -1

    def path_of(self, index: int) -> str:
        return str(self.root / self.paths[index])


def official_split(owner: str, split: str, ratios: Mapping[str, float] | None, official: Sequence[str]) -> str:
    """The official split that holds `split`: the one of its name, or train where `ratios` cut `split` out of it."""
    if ratios is not None:
        check_ratios(owner, ratios)
        if "train" not in ratios:
            raise ConfigError(f"{owner}: ratios {dict(ratios)} cut up the official train split; they must name train")
        if split in ratios:
            return "train"
    if split not in official:
        raise ConfigError(
            f"{owner}: split={split!r} is none of {', '.join(official)}; to cut it out of train, give "
            f"both the same ratios, such as {{train: 0.9, {split}: 0.1}}"
        )
    return split


def cut(
    samples: np.ndarray, labels: np.ndarray, split: str, ratios: Mapping[str, float] | None, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """The rows of `split` if `ratios` name it (see `stratified_split`), else all."""
    if ratios is None or split not in ratios:
        return samples, labels
    rows = stratified_split(labels, ratios, split, seed=seed)
    return samples[rows], labels[rows]


def choose(
    owner: str,
    labels: np.ndarray,
    names: Sequence[str],
    *,
    only: Sequence[str] | None,
    per_class: int | None,
    seed: int,
) -> tuple[np.ndarray, np.ndarray, list[str]]:
    """A smaller problem out of a data set: (rows, ascending; their labels; the class names).

    Only the classes of these names, numbered in the order given; and of each, `per_class` samples drawn with `seed`. A
    draw of fewer is part of a draw of more. Raises ConfigError for a name that is none, and for too few samples.
    """
    names = list(names)
    kept = names if only is None else [str(name) for name in only]
    _check_names(owner, kept, names)
    number = np.full(len(names), -1, np.int64)
    number[[names.index(name) for name in kept]] = np.arange(len(kept))
    rows = np.flatnonzero(number[labels] >= 0)
    if per_class is not None:
        place = BatchRandom(seed, 0, np.arange(len(labels))).fork("per_class").uniform()
        shuffled = rows[np.argsort(place[rows], kind="stable")]
        groups = [shuffled[number[labels[shuffled]] == label] for label in range(len(kept))]
        few = next((label for label, group in enumerate(groups) if len(group) < per_class), None)
        if few is not None:
            raise ConfigError(
                f"{owner}: per_class={per_class}, but class {kept[few]!r} has {len(groups[few])} samples in this split"
            )
        rows = np.sort(np.concatenate([group[:per_class] for group in groups]))
    return rows, number[labels[rows]], kept


def _check_names(owner: str, kept: list[str], names: list[str]) -> None:
    unknown = [name for name in kept if name not in names]
    if unknown:
        raise ConfigError(
            f"{owner}: classes: {unknown[0]!r} is none of {', '.join(names[:20])}"
            f"{', ...' if len(names) > 20 else ''}{suggest(unknown[0], names)}"
        )
    if len(set(kept)) < len(kept) or not kept:
        raise ConfigError(f"{owner}: classes {kept} must be one name or more, each once")
