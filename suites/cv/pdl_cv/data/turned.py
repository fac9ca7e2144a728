"""Classes made of others by turning their images."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pdl.data import Dataset, Fault, Sample, StandIn, digest, labels_of
from pdl.errors import ConfigError
from pdl.suites import locate

TURNS = ("", "@90", "@180", "@270")  # what the names of turned classes end in: degrees, anticlockwise


class QuarterTurns(Dataset):
    """Each class of a data set four times: as it is, and turned by 90, 180 and 270 degrees, as classes of their own
    (Santoro et al., arXiv 1605.06065, section 4.1). For characters and other signs that turning makes other ones, where
    there are few to learn what tells them apart; not for what stays the same when it is turned.

    dataset   images with a class each, before any transform
    """

    unfoldable = "a picture and its turns belong together; deal out the data set that is turned"

    def __init__(self, dataset: Dataset) -> None:
        self.dataset = dataset
        labels = labels_of(dataset, type(self).__name__)
        named = [name + turn for turn in TURNS for name in dataset.classes]
        if len(set(named)) < len(named):
            raise ConfigError(f"{type(self).__name__}: the data set has turned classes already; turn it once")
        self.classes = named
        self._labels = np.concatenate([labels + turn * len(dataset.classes) for turn in range(len(TURNS))])

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, index: int) -> Sample:
        turn, row = divmod(index, len(self.dataset))
        sample = self.dataset[row]
        image = np.ascontiguousarray(np.rot90(sample["image"], turn))
        return {**sample, "image": image, "label": int(self._labels[index])}

    @property
    def labels(self) -> np.ndarray:
        return self._labels

    @property
    def fingerprint(self) -> str:
        return digest(type(self).__name__, self.dataset.fingerprint)

    def path_of(self, index: int) -> str | None:
        return self.dataset.path_of(index % len(self.dataset))

    def fault_of(self, index: int) -> Fault | None:
        return self.dataset.fault_of(index % len(self.dataset))

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn | None:
        """That of the data set."""
        node = dict(settings["dataset"])
        made = locate(node["_target_"]).stand_in(folder, node)
        return None if made is None else StandIn({"dataset": {**node, **made.settings}}, made.what)
