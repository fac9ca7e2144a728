"""Splits by whole classes, for what is learned from some classes and measured on others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np

from pdl.data.dataset import Dataset, Dealing, Sample, StandIn, digest, not_dealt
from pdl.data.faults import Fault
from pdl.data.folders import CUT
from pdl.data.sampler import labels_of
from pdl.data.splits import check_ratios, stratified_split
from pdl.errors import ConfigError, listed
from pdl.hints import Range
from pdl.suites import locate, suggest


class ByClass(Dataset):
    """The samples of some of the classes of a data set, by whole classes: none is in two splits. `classes` are those of
    the split, in the order of the data set, and labels are their numbers.

    dataset   all of them
    split     train, val or test; null: all classes
    ratios    shares of the classes that the splits have, in the order of a hash of their names and `seed`; give all
              splits the same. By default 8:1:1, or only train where `held_out` is given
    held_out  classes of other splits than train, such as {val: [anna], test: [bob, eve]}; a name that several begin
              with, up to a "/", stands for all of them. `ratios` are then of the others
    """

    def __init__(
        self,
        dataset: Dataset,
        *,
        split: Literal["train", "val", "test"] | None = None,
        ratios: Mapping[str, float] | None = None,
        held_out: Mapping[str, Sequence[str]] | None = None,
        seed: Annotated[int, Range(0)] = 0,
    ) -> None:
        self.dataset = dataset
        names = np.array(dataset.classes, object)
        self._names: Sequence[str] = names[labels_of(dataset, type(self).__name__)].tolist()  # of each sample
        there = set(self._names)
        present = [name for name in dataset.classes if name in there]
        self._take(present if split is None else self._chosen(present, split, ratios, held_out or {}, seed))

    def _take(self, classes: Sequence[str]) -> Self:
        """Only these, in the order of the data set."""
        chosen = set(classes)
        self.classes = [name for name in self.dataset.classes if name in chosen]
        number = {name: label for label, name in enumerate(self.classes)}
        self.rows = np.array([row for row, name in enumerate(self._names) if name in chosen], np.int64)
        self._labels = np.array([number[self._names[row]] for row in self.rows], np.int64)
        return self

    def _chosen(
        self,
        present: Sequence[str],
        split: str,
        ratios: Mapping[str, float] | None,
        held_out: Mapping[str, Sequence[str]],
        seed: int,
    ) -> Sequence[str]:
        owner = type(self).__name__
        found = {part: self._meant(names, present) for part, names in held_out.items()}
        named = [name for names in found.values() for name in names]
        twice = [name for name in named if named.count(name) > 1]
        if twice:
            raise ConfigError(f"{owner}: held_out: {twice[0]!r} is held out twice; name it once")
        if split in found:
            return found[split]
        rest = [name for name in present if name not in set(named)]
        shares = check_ratios(owner, ratios or ({"train": 1.0} if held_out else CUT))
        if split not in shares:
            raise ConfigError(f"{owner}: split={split!r} is neither in ratios {shares} nor in held_out; add it")
        rows = stratified_split(np.zeros(len(rest), np.int64), shares, split, seed=seed, keys=rest)
        return [rest[row] for row in rows]

    def _meant(self, names: Sequence[str], present: Sequence[str]) -> list[str]:
        """The classes that names stand for: those of the name, or below it."""
        made = list[str]()
        for name in map(str, names):
            found = [each for each in present if each == name or each.startswith(f"{name}/")]
            if not found:
                raise ConfigError(
                    f"{type(self).__name__}: held_out: {name!r} must be one of {listed(present, 10)}"
                    f"{suggest(name, present)}"
                )
            made += found
        return made

    def row_of(self, index: int) -> int:
        """Which sample of the data set sample `index` is."""
        return int(self.rows[index])

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, index: int) -> Sample:
        return {**self.dataset[self.row_of(index)], "label": int(self._labels[index])}

    @property
    def labels(self) -> np.ndarray:
        return self._labels

    @property
    def fingerprint(self) -> str:
        return digest(type(self).__name__, self.dataset.fingerprint, self.rows)

    def path_of(self, index: int) -> str | None:
        return self.dataset.path_of(self.row_of(index))

    def fault_of(self, index: int) -> Fault | None:
        return self.dataset.fault_of(self.row_of(index))

    def dealing(self, by: str | None = None) -> Dealing:
        """Classes stay whole."""
        return Dealing("all samples of a class in one fold", groups=self._labels)

    @classmethod
    def pooled(cls, datasets: Sequence[Any]) -> Dataset:
        first = datasets[0]
        if len({data.dataset.fingerprint for data in datasets}) > 1:
            raise not_dealt(first, "the splits are parts of different data sets")
        return copy(first)._take([name for data in datasets for name in data.classes])

    def dealt(self, rows: np.ndarray, before: np.ndarray) -> Dataset:
        return copy(self)._take([self.classes[label] for label in np.unique(self._labels[rows]).tolist()])

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn | None:
        """That of the data set, its classes cut 4:3:3."""
        node = dict(settings["dataset"])
        made = locate(node["_target_"]).stand_in(folder, node)
        if made is None:
            return None
        ratios = {"train": 0.4, "val": 0.3, "test": 0.3}
        return StandIn({"dataset": {**node, **made.settings}, "ratios": ratios, "held_out": None}, made.what)
