"""Motions of images of text: by a matrix onto an image that holds all of it, or bent. What comes from outside is one
value, or the edges continued."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np

from pdl.data.transforms.motion import Motion
from pdl.data.transforms.pixels import of_centres, with_channels


@dataclass(frozen=True)
class Warped(Motion):
    """Moved by `positions` [3, 3] onto an image of size `to` (height, width)."""

    positions: np.ndarray
    to: tuple[int, int]
    fill: float | None

    def image(self, image: np.ndarray) -> np.ndarray:
        centres = of_centres(self.positions)
        if not centres[2, :2].any():
            return with_channels(cv2.warpAffine(image, centres[:2], self.to[::-1], **_border(self.fill)))
        return with_channels(cv2.warpPerspective(image, centres, self.to[::-1], **_border(self.fill)))

    def size(self, height: int, width: int) -> tuple[int, int]:
        return self.to

    def matrix(self, height: int, width: int) -> np.ndarray:
        return self.positions


@dataclass(frozen=True)
class Remapped(Motion):
    """Pixel (x, y) comes from (across[x], y + down[x]), in an image of size `to`, to which `points` moves positions."""

    across: np.ndarray
    down: np.ndarray
    to: tuple[int, int]
    points: Callable[[np.ndarray], np.ndarray]
    fill: float | None

    def image(self, image: np.ndarray) -> np.ndarray:
        x = np.broadcast_to(self.across.astype(np.float32), self.to)
        y = np.arange(self.to[0], dtype=np.float32)[:, None] + self.down.astype(np.float32)
        return with_channels(cv2.remap(image, np.ascontiguousarray(x), y, cv2.INTER_LINEAR, **_border(self.fill)))

    def size(self, height: int, width: int) -> tuple[int, int]:
        return self.to


def _border(fill: float | None) -> dict[str, Any]:
    """OpenCV's arguments for what comes from outside of an image."""
    if fill is None:
        return {"borderMode": cv2.BORDER_REPLICATE}
    return {"borderMode": cv2.BORDER_CONSTANT, "borderValue": (fill,) * 4}
