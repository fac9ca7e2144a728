"""Lines of text, upright and upside down, for a classifier that tells one from the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from pdl.data.dataset import Dataset, Dealing, Sample, StandIn, digest
from pdl.data.faults import Fault
from pdl.data.folding import pooled
from pdl.suites import locate, moved


class TurnedLines(Dataset):
    """Every line of a data set twice: sample 2 i is {"image": uint8 [H, W, C], "label": 0}, line i as it is, and sample
    2 i + 1 the same turned by 180 degrees, with label 1. Classes are "0" and "180", as `pdl_ocr.Reader` asks of `turn`.

    lines   a data set whose samples have the "image" of a line that is upright, such as `TextLines`, `SyntheticLines`
    """

    classes = ("0", "180")

    def __init__(self, lines: Dataset) -> None:
        self.lines, self.faults = lines, lines.faults
        if (root := getattr(lines, "root", None)) is not None:
            self.root = root

    def __len__(self) -> int:
        return 2 * len(self.lines)

    def __getitem__(self, index: int) -> Sample:
        if not 0 <= index < len(self):
            raise IndexError(f"sample {index} is outside of {len(self)}")
        image = self.lines[index // 2]["image"]
        return {"image": np.ascontiguousarray(image[::-1, ::-1]) if index % 2 else image, "label": index % 2}

    @property
    def labels(self) -> np.ndarray:
        """0 of lines that are upright, 1 of the others, int64 [len]."""
        return np.arange(len(self)) % 2

    @cached_property
    def fingerprint(self) -> str:
        """A hash of that of the lines."""
        return digest(type(self).__name__, self.lines.fingerprint)

    def path_of(self, index: int) -> str | None:
        return self.lines.path_of(index // 2)

    def fault_of(self, index: int) -> Fault | None:
        return None if index % 2 else self.lines.fault_of(index // 2)

    def dealing(self, by: str | None = None) -> Dealing:
        """As the lines are dealt, both samples of one together."""
        inner = self.lines.dealing(by)
        groups = np.arange(len(self.lines)) if inner.groups is None else inner.groups
        return Dealing("both samples of a line together", groups=np.repeat(groups, 2))

    @classmethod
    def pooled(cls, datasets: Sequence[Any]) -> Dataset:
        return cls(pooled([each.lines for each in datasets]))

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn | None:
        """That of the lines."""
        node = settings["lines"]
        part = locate(moved(node["_target_"]) or node["_target_"])
        stand = part.stand_in(folder, node)
        return None if stand is None else StandIn({"lines": {**node, **stand.settings}}, stand.what)
