"""What a net that finds lines learns of a page, as a transform."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pdl.data.dataset import Sample
from pdl.data.pipeline import Transform
from pdl.data.randomness import SampleRandom
from pdl_ocr.data.polygons import split_points
from pdl_ocr.models.detector import Coding


@dataclass(frozen=True)
class TextMaps(Transform):
    """{"image", "maps" float32 [H / cell, W / cell, K]}: the polygons of a sample (`points`, `corners`, `ignored`)
    become what the net learns. Points behind those of the lines stay, as "corner".

    coding  the net's
    ratio   r of DB's shrinking
    """

    coding: Coding
    ratio: float

    def __call__(self, sample: Sample, rng: SampleRandom) -> Sample:
        rest = {name: value for name, value in sample.items() if name not in ("points", "corners", "ignored")}
        points, corner = np.split(sample["points"], [int(sample["corners"].sum())])
        polygons = split_points(points, sample["corners"])
        maps = self.coding.targets(polygons, sample["ignored"], sample["image"].shape[:2], self.ratio)
        return {**rest, "maps": maps, "corner": corner}
