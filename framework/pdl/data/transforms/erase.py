"""Erase a part of the image."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from pdl.data.pipeline import ImageBatchTransform
from pdl.data.randomness import BatchRandom, SampleRandom
from pdl.data.transforms._args import Probability, number, span


@dataclass(frozen=True)
class RandomErasing(ImageBatchTransform):
    """With probability p, set a random rectangle to `value` (in the image's own units; after Normalize, 0 is the mean).

    It covers `scale` (from, to) of the area with an aspect ratio h/w log-uniform in `ratio`; if 10 tries do not fit
    nothing is erased (Zhong et al., arXiv 1708.04896).
    """

    p: Probability = 0.5
    scale: Sequence[float] = (0.02, 0.33)
    ratio: Sequence[float] = (0.3, 3.3)
    value: float = 0.0

    def __post_init__(self) -> None:
        owner = "RandomErasing"
        number(owner, "p", self.p, 0, 1)
        number(owner, "value", self.value, -math.inf)
        self._set(scale=span(owner, "scale", self.scale, 0, 1, above=True),
                  ratio=span(owner, "ratio", self.ratio, 0, above=True))

    def _erase(self, out: np.ndarray, rng: SampleRandom) -> None:
        """Erase in place; `rng` has already drawn whether (p)."""
        height, width = out.shape[:2]
        low, high = (math.log(r) for r in self.ratio)
        for _ in range(10):
            area = height * width * rng.uniform(*self.scale)
            ratio = math.exp(rng.uniform(low, high))
            h, w = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < h < height and 0 < w < width:
                y, x = rng.integers(0, height - h + 1), rng.integers(0, width - w + 1)
                out[y:y + h, x:x + w] = self.value
                return

    def image(self, image: np.ndarray, rng: SampleRandom) -> np.ndarray:
        if not rng.chance(self.p):
            return image
        out = image.copy()
        self._erase(out, rng)
        return out

    def images(self, images: np.ndarray, rngs: BatchRandom) -> np.ndarray:
        chosen = np.flatnonzero(rngs.chance(self.p))
        out = images.copy()
        for i in chosen.tolist():
            self._erase(out[i], rngs[i])
        return out
