"""Where the pixels of a net's input come from, so that positions in it can be given in the original image."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pdl.dtype import Array


@dataclass(frozen=True)
class Frame:
    """An image of `height` x `width` pixels, and a part of it at another size: x_image = scale[0] x + offset[0],
    y_image = scale[1] y + offset[1]. Pixel (0, 0) covers the square from 0 to 1, so a resize is a scale alone."""

    height: int
    width: int
    scale: tuple[float, float] = (1.0, 1.0)
    offset: tuple[float, float] = (0.0, 0.0)

    def resized(self, before: Array, size: tuple[int, int]) -> Frame:
        """After the array `before` [H, W, ...] was resized to (height, width)."""
        (h, w), (sx, sy) = size, self.scale
        return replace(self, scale=(sx * before.shape[1] / w, sy * before.shape[0] / h))

    def moved(self, left: float, top: float) -> Frame:
        """After so many pixels were added on the left and above; negative where they were cut off."""
        (sx, sy), (x, y) = self.scale, self.offset
        return replace(self, offset=(x - sx * left, y - sy * top))

    def back(self, points: Array) -> Array:
        """The positions [..., 2] (x, y) in the original image, clipped to it."""
        found = np.asarray(points, np.float64) * self.scale + self.offset
        return np.clip(found, 0.0, (self.width, self.height))
