"""Skeleton sequences: a class for each sequence of the joints of a body."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np

from pdl.data.dataset import Dataset, Sample, digest
from pdl.data.faults import Fault, fault
from pdl.data.folders import class_folders
from pdl.data.image import REPAIR
from pdl.data.labelled import LabelledFiles, PerClass
from pdl.dtype import Array
from pdl.errors import ConfigError, DataError
from pdl_cv.steps.skeletons import FILES, read_skeletons

Edges = Sequence[Sequence[int]]


class SkeletonArrays(Dataset):
    """Sequences in memory, float32 [T, joints, channels] each, of any length, with labels int64 [N]: sample i is
    {"skeleton": float32 [T, joints, channels], "label": int}.

    sequences  of at least one frame each
    edges      pairs of joints that bones join
    centre     the joint in the middle of the body
    source     the file that they are from, if any
    """

    foldable = True

    def __init__(
        self,
        sequences: Sequence[Array],
        labels: Array,
        classes: Sequence[str],
        *,
        edges: Edges,
        centre: int = 0,
        source: str | None = None,
    ) -> None:
        self.sequences, self.classes, self.source = list(sequences), list(classes), source
        self._labels = np.asarray(labels, np.int64)
        self.joints, self.channels = (int(n) for n in self.sequences[0].shape[1:])
        self.edges, self.centre = checked_edges(type(self).__name__, edges, self.joints), centre

    def __len__(self) -> int:
        return len(self.sequences)

    def __getitem__(self, index: int) -> Sample:
        return {"skeleton": self.sequences[index], "label": int(self._labels[index])}

    @property
    def labels(self) -> Array:
        return self._labels

    @cached_property
    def fingerprint(self) -> str:
        """A hash of all numbers, labels and class names."""
        lengths = np.array([len(each) for each in self.sequences])
        return digest(*self.classes, lengths, self._labels, np.concatenate(self.sequences))

    def path_of(self, index: int) -> str | None:
        return self.source


class SkeletonFolder(LabelledFiles):
    """A folder for each class with its sequences, *.npy of numbers [T, joints, channels] each, at any depth; sorted by
    name. Samples are as those of `SkeletonArrays`; a joint that was not found is 0 in all channels.

    root     the folder; a relative one is also looked for under PDL_DATA
    edges    pairs of joints that bones join: [[0, 1], [1, 2], ...]
    centre   the joint in the middle of the body
    split, ratios, seed, classes, allow_empty  as of `VideoFolder`
    per_class  only so many sequences of each class (of this split), drawn with `seed`
    """

    def __init__(
        self,
        root: str | Path,
        *,
        edges: Edges,
        centre: int = 0,
        split: str | None = None,
        ratios: Mapping[str, float] | None = None,
        seed: int = 0,
        classes: Sequence[str] | None = None,
        allow_empty: bool = False,
        per_class: PerClass = None,
    ) -> None:
        self.split = split
        files = class_folders(
            type(self).__name__, root, FILES, what="sequences", split=split, ratios=ratios, seed=seed, classes=classes,
            allow_empty=allow_empty,
        )  # fmt: skip
        super().__init__(*files, seed=seed, per_class=per_class)
        first = np.load(self.path_of(0), mmap_mode="r", allow_pickle=False) if self.fault_of(0) is None else None
        if first is None or first.ndim != 3:
            raise fault(self.path_of(0), "expected numbers [T, joints, channels]", REPAIR)
        self.joints, self.channels = first.shape[1:]
        self.edges, self.centre = checked_edges(type(self).__name__, edges, self.joints), centre

    def __getitem__(self, index: int) -> Sample:
        path = self.path_of(index)
        try:
            return {"skeleton": read_skeletons(path, self.joints, self.channels), "label": int(self._labels[index])}
        except DataError as error:
            raise fault(path, str(error).removeprefix(f"{path}: "), REPAIR, index=index) from error

    def fault_of(self, index: int) -> Fault | None:
        path = self.path_of(index)
        try:
            np.load(path, mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError) as error:
            return Fault(path, index, f"not an array that can be read ({error})", REPAIR)
        return None


def checked_edges(owner: str, edges: Edges, joints: int) -> list[list[int]]:
    """The edges as lists; ConfigError where one is no pair of two of the joints."""
    made = [list(map(int, pair)) for pair in edges]
    wrong = next((pair for pair in made if len(pair) != 2 or not 0 <= min(pair) < max(pair) < joints), None)
    if wrong is not None:
        raise ConfigError(f"{owner}: edges: {wrong} is no pair of two of the joints 0 to {joints - 1}")
    return made


def waving(classes: int, each: int, joints: int, seed: int) -> tuple[list[Array], Array]:
    """Made sequences for stand-ins, float32 [T, joints, 3], and labels: of class k joint k moves to and fro (that of k
    modulo the joints, more slowly)."""
    body, rng = np.random.default_rng(0).normal(0, 1, (joints, 3)), np.random.default_rng(seed + 1)
    labels, found = np.repeat(np.arange(classes), each), []
    for label in labels.tolist():
        time = np.arange(rng.integers(20, 50))
        x = body + rng.normal(0, 0.03, (len(time), joints, 3))
        x[:, label % joints] += 2 * np.sin(time * (0.6 - 0.2 * (label // joints)))[:, None]
        found.append(x.astype(np.float32))
    return found, labels
