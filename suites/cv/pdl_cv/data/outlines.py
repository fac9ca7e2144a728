"""Pairs made of pictures: the outlines of what is in them, and the pictures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from pdl.data import Dataset, Fault, Sample, StandIn, digest
from pdl.errors import ConfigError
from pdl.suites import locate


class Outlines(Dataset):
    """Pairs of which one can be drawn by a computer: sample i is {"image": uint8 [H, W, 1], "picture": uint8 [H, W,
    C]}, 255 on the edges of a picture (Canny, IEEE PAMI 1986) and 0 elsewhere, and the picture. So a net that makes
    pictures of others is tried on any images, as Isola et al. (arXiv 1611.07004) do on shoes and bags.

    dataset  images, before any transform; what else its samples have is left out
    low      gradients (of Sobel's masks of 3 x 3) from which a pixel belongs to an edge that goes on from
    high     one of so large a gradient
    """

    unfoldable = "outlines belong to their pictures; deal out the data set that they are drawn of"

    def __init__(self, dataset: Dataset, *, low: float = 100.0, high: float = 200.0) -> None:
        if not 0 <= low <= high:
            raise ConfigError(f"Outlines: low={low}, high={high} must be 0 or more, low not above high")
        self.dataset, self.low, self.high = dataset, float(low), float(high)

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Sample:
        import cv2

        picture = self.dataset[index]["image"]
        edges = cv2.Canny(np.ascontiguousarray(picture), self.low, self.high)
        return {"image": np.asarray(edges)[..., None], "picture": picture}

    @property
    def fingerprint(self) -> str:
        return digest(type(self).__name__, self.dataset.fingerprint, f"{self.low} {self.high}")

    def path_of(self, index: int) -> str | None:
        return self.dataset.path_of(index)

    def fault_of(self, index: int) -> Fault | None:
        return self.dataset.fault_of(index)

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn | None:
        """That of the data set."""
        node = dict(settings["dataset"])
        made = locate(node["_target_"]).stand_in(folder, node)
        return None if made is None else StandIn({"dataset": {**node, **made.settings}}, f"outlines of {made.what}")
