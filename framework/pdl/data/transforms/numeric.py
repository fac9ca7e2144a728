"""From bytes to floats."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import cv2
import numpy as np

from pdl.data.pipeline import ImageBatchTransform
from pdl.data.randomness import BatchRandom, SampleRandom
from pdl.errors import ConfigError, UsageError


@dataclass(frozen=True)
class ToFloat(ImageBatchTransform):
    """uint8 0..255 to float32 0..1: y = x / 255. Float images become float32 unchanged."""

    def deployed(self) -> list[dict[str, Any]]:
        return [{"step": "to_float"}]

    def image(self, image: np.ndarray, rng: SampleRandom) -> np.ndarray:
        return self.images(image)

    def images(self, images: np.ndarray, rngs: BatchRandom | None = None) -> np.ndarray:
        if images.dtype == np.uint8:
            out: np.ndarray = np.divide(images, np.float32(255), dtype=np.float32)
            return out
        return images.astype(np.float32)


@dataclass(frozen=True)
class Normalize(ImageBatchTransform):
    """y = (x / 255 - mean) / std, float32; one mean and std for all channels, or one a channel.

    mean and std are on the 0..1 scale. A uint8 image is divided by 255, in one pass over it (a table of the 256
    results for each channel, computed in float64); a float image is taken to be on the 0..1 scale already.

    mean  of each channel, or of all
    std   standard deviation of each channel, or of all
    """

    mean: float | Sequence[float]
    std: float | Sequence[float]

    def __post_init__(self) -> None:
        mean, std = (tuple(value) if isinstance(value, Sequence) else (value,) for value in (self.mean, self.std))
        if not all(isinstance(v, int | float) for v in mean + std):
            raise ConfigError(f"Normalize: mean={self.mean!r}, std={self.std!r} must be numbers or lists of numbers")
        mean, std = tuple(map(float, mean)), tuple(map(float, std))
        if len(mean) != len(std):
            raise ConfigError(f"Normalize: mean has {len(mean)} channels, std has {len(std)}; give both as many")
        if not all(map(math.isfinite, mean)) or not all(math.isfinite(s) and s > 0 for s in std):
            raise ConfigError(f"Normalize: mean={mean}, std={std} must be finite, and std above 0")
        if max(map(abs, mean)) > 1 or max(std) > 1:
            raise ConfigError(f"Normalize: mean={mean}, std={std} must be on the 0..1 scale; divide them by 255")
        self._set(mean=mean, std=std)

    def deployed(self) -> list[dict[str, Any]]:
        mean, std = list(self.mean), list(self.std)  # type: ignore[arg-type]
        return [{"step": "normalize", "mean": mean, "std": std}]

    def undo(self, images: np.ndarray) -> np.ndarray:
        """x / 255 of images float [..., C] that this transform has made."""
        return np.asarray(images * np.array(self.std, np.float32) + np.array(self.mean, np.float32))

    @cached_property
    def _table(self) -> np.ndarray:
        """[1, 256, C]: the result for each byte and channel."""
        mean, std = np.array(self.mean), np.array(self.std)
        table: np.ndarray = ((np.arange(256)[:, None] / 255 - mean) / std).astype(np.float32)[None]
        return table

    def image(self, image: np.ndarray, rng: SampleRandom) -> np.ndarray:
        return self.images(image)

    def images(self, images: np.ndarray, rngs: BatchRandom | None = None) -> np.ndarray:
        table, channels = self._table, images.shape[-1]
        given = table.shape[-1]
        if given not in (1, channels):
            raise UsageError(f"Normalize: mean and std have {given} channels, the image has {channels}; "
                             "set the data set's mode, or give one value a channel")
        if images.dtype == np.uint8:
            rows = np.ascontiguousarray(images).reshape(images.shape[-3], -1, given)
            return np.asarray(cv2.LUT(rows, table)).reshape(images.shape)
        mean, std = np.array(self.mean, np.float32), np.array(self.std, np.float32)
        return (images.astype(np.float32) - mean) / std


def displayed(image: np.ndarray, transforms: Sequence[Any]) -> np.ndarray:
    """An image as these transforms leave it, made uint8 [H, W, 1 or 3] for people: Normalize and ToFloat are undone.

    Floats that neither of them made are stretched from their minimum to their maximum; of images with two channels, or
    more than three, the first one is shown.
    """
    image = image if image.shape[-1] in (1, 3) else image[..., :1]
    if image.dtype == np.uint8:
        return np.ascontiguousarray(image)
    scaled = [t for t in transforms if isinstance(t, Normalize | ToFloat)]
    for transform in reversed(scaled):
        image = transform.undo(image) if isinstance(transform, Normalize) else image
    if not scaled:
        low, high = float(image.min(initial=np.inf)), float(image.max(initial=-np.inf))
        image = (image - low) / ((high - low) or 1.0)
    return np.ascontiguousarray(np.clip(np.rint(image * 255), 0, 255).astype(np.uint8))
