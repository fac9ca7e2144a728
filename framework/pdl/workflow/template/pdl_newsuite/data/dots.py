"""Pictures that are made up."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np

from pdl.data import ArrayDataset
from pdl.hints import Range


class Dots(ArrayDataset):
    """A bright dot on a noisy ground: {"image": uint8 [size, size, 1], "point": float32 [2]}, the point being
    its x and y as parts of width and height. The same arguments give the same pictures; splits differ.
    """

    def __init__(
        self,
        *,
        split: Literal["train", "val", "test"] = "train",
        samples: Annotated[int, Range(1)] = 1024,
        size: Annotated[int, Range(8)] = 16,
        seed: Annotated[int, Range(0)] = 0,
    ) -> None:
        rng = np.random.default_rng([seed, ("train", "val", "test").index(split)])
        points = rng.uniform(0.15, 0.85, (samples, 2))
        centres = (np.arange(size) + 0.5) / size
        x, y = (np.exp(-((centres - points[:, i : i + 1]) ** 2) / 0.01) for i in range(2))
        bright = 200 * y[:, :, None] * x[:, None, :] + rng.uniform(0, 55, (samples, size, size))
        super().__init__(image=bright.astype(np.uint8)[..., None], point=points.astype(np.float32))
