"""What makes more of a few pages with fields, for training: of pages as numbers, as
`pdl_ocr.extraction.loader.Aligned` makes them, so that values stay where they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from pdl.data.dataset import Sample
from pdl.data.pipeline import Transform
from pdl.data.randomness import SampleRandom
from pdl.errors import ConfigError, UsageError
from pdl.hints import Range

Probability = Annotated[float, Range(0, 1)]


@dataclass(frozen=True)
class _OfPages(Transform):
    """A change of a page {"characters" [P, C], "boxes" [P, 4], "digits" [10]}."""

    def __post_init__(self) -> None:
        p = getattr(self, "p", 0.0)
        if not 0 <= p <= 1:
            raise ConfigError(f"{type(self).__name__}: p={p!r} must be from 0 to 1")

    def __call__(self, sample: Sample, rng: SampleRandom) -> Sample:
        if "characters" not in sample:
            raise UsageError(f"{type(self).__name__}: changes pages with fields (pdl_ocr.InformationExtraction)")
        return {**sample, **self.page(sample, rng)}

    def page(self, sample: Sample, rng: SampleRandom) -> Sample:
        """What is changed."""
        raise NotImplementedError

    def deployed(self) -> list[dict[str, Any]]:
        return []


@dataclass(frozen=True)
class OtherDigits(_OfPages):
    """With probability `p` every digit of a page becomes the one that a random table says: equal numbers stay equal,
    but no date and no price is learned by heart."""

    p: Probability = 0.35

    def page(self, sample: Sample, rng: SampleRandom) -> Sample:
        if not rng.chance(self.p):
            return {}
        digits, characters = sample["digits"], sample["characters"]
        table = np.arange(max(int(characters.max()), int(digits.max())) + 1)
        table[digits] = [digits[rng.integers(0, len(digits))] for _ in digits]
        table[:2] = 0, 1  # digits that the dictionary lacks are unknown, and stay so
        return {"characters": table[characters]}


@dataclass(frozen=True)
class UnknownCharacters(_OfPages):
    """Each character becomes an unknown one with probability `p`, so that none is relied upon."""

    p: Probability = 0.03

    def page(self, sample: Sample, rng: SampleRandom) -> Sample:
        characters = sample["characters"]
        lost = np.random.default_rng(rng.bits()).random(characters.shape) < self.p
        return {"characters": np.where(lost & (characters > 0), 1, characters)}


@dataclass(frozen=True)
class MovedBoxes(_OfPages):
    """The page is stretched across and down by normal factors of spread `scale` and moved by normal parts of its width
    of spread `shift`; each box is moved by `noise` of it, too."""

    scale: Annotated[float, Range(0, 1)] = 0.08
    shift: Annotated[float, Range(0, 1)] = 0.03
    noise: Annotated[float, Range(0, 1)] = 0.005

    def page(self, sample: Sample, rng: SampleRandom) -> Sample:
        numbers, boxes = np.random.default_rng(rng.bits()), sample["boxes"]
        factors = np.tile(np.exp(self.scale * numbers.standard_normal(2)), 2)
        moved = np.array([1, 0, 1, 0]) * self.shift * numbers.standard_normal()
        own = self.noise * numbers.standard_normal((len(boxes), 1))
        return {"boxes": (boxes * factors + moved + own).astype(np.float32)}
