"""Motions: what a geometric transform does to the pixels of one image, its random numbers drawn.

A `Motion` moves an image, instance masks and, by its matrix, positions (`pdl.data.transforms.pixels`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from pdl.data.transforms._args import Border
from pdl.data.transforms.pixels import draw, flip, of_positions, pad_images, placed, resize, warp, warped_masks


class Motion:
    """What happens to the pixels of one image; this one does nothing."""

    def image(self, image: np.ndarray) -> np.ndarray:
        """The image [h, w, C] that comes of one [H, W, C]."""
        return image

    def masks(self, masks: np.ndarray) -> np.ndarray:
        """The masks uint8 [n, h, w] of 0 and 1 that come of those [n, H, W]: nearest pixels, 0 from outside."""
        return masks

    def size(self, height: int, width: int) -> tuple[int, int]:
        """(h, w) of (H, W)."""
        return height, width

    def matrix(self, height: int, width: int) -> np.ndarray:
        """float64 [3, 3]: where positions (x, y, 1) of an image of this size go."""
        return np.eye(3)


STILL = Motion()


@dataclass(frozen=True)
class Pixels(Motion):
    """`function` of the image, which moves nothing."""

    function: Callable[[np.ndarray], np.ndarray]

    def image(self, image: np.ndarray) -> np.ndarray:
        return self.function(image)


@dataclass(frozen=True)
class Padded(Motion):
    """(left, top, right, bottom) pixels more; see `pad_images`."""

    padding: Any
    fill: Any = 0
    mode: Border = "constant"

    def image(self, image: np.ndarray) -> np.ndarray:
        return pad_images(image, self.padding, self.fill, self.mode)

    def masks(self, masks: np.ndarray) -> np.ndarray:
        return pad_images(masks[..., None], self.padding, 0, "constant")[..., 0]

    def size(self, height: int, width: int) -> tuple[int, int]:
        left, top, right, bottom = self.padding
        return height + top + bottom, width + left + right

    def matrix(self, height: int, width: int) -> np.ndarray:
        return placed(1, 1, self.padding[0], self.padding[1])


@dataclass(frozen=True)
class Cut(Motion):
    """The window of `height` x `width` pixels at (top, left), inside of the image."""

    top: int
    left: int
    height: int
    width: int

    def image(self, image: np.ndarray) -> np.ndarray:
        return image[self.top:self.top + self.height, self.left:self.left + self.width]

    def masks(self, masks: np.ndarray) -> np.ndarray:
        return masks[:, self.top:self.top + self.height, self.left:self.left + self.width]

    def size(self, height: int, width: int) -> tuple[int, int]:
        return self.height, self.width

    def matrix(self, height: int, width: int) -> np.ndarray:
        return placed(1, 1, -self.left, -self.top)


@dataclass(frozen=True)
class Mirrored(Motion):
    """Left and right exchanged (axis 1), or top and bottom (axis 0)."""

    axis: int

    def image(self, image: np.ndarray) -> np.ndarray:
        return flip(image[None], self.axis)[0]

    def masks(self, masks: np.ndarray) -> np.ndarray:
        return masks[:, :, ::-1] if self.axis == 1 else masks[:, ::-1]

    def matrix(self, height: int, width: int) -> np.ndarray:
        return placed(-1, 1, width, 0) if self.axis == 1 else placed(1, -1, 0, height)


@dataclass(frozen=True)
class Scaled(Motion):
    """Resized to `to` (height, width); see `resize`."""

    to: Any
    interpolation: str = "auto"

    def image(self, image: np.ndarray) -> np.ndarray:
        return resize(image, self.to, self.interpolation)

    def masks(self, masks: np.ndarray) -> np.ndarray:
        (h, w), (height, width) = self.to, masks.shape[1:]
        rows, columns = ((np.arange(n) * 2 + 1) * have // (2 * n) for n, have in ((h, height), (w, width)))
        return masks[:, rows[:, None], columns]

    def size(self, height: int, width: int) -> tuple[int, int]:
        return int(self.to[0]), int(self.to[1])

    def matrix(self, height: int, width: int) -> np.ndarray:
        return placed(self.to[1] / width, self.to[0] / height, 0, 0)


@dataclass(frozen=True)
class Warp(Motion):
    """Each point p moved to `centres` @ p, a matrix [2, 3] or [3, 3] that counts from the centres of pixels; the size
    stays; see `warp`."""

    centres: np.ndarray
    interpolation: str = "linear"
    fill: Any = (0.0,)

    def image(self, image: np.ndarray) -> np.ndarray:
        return warp(image, self.centres, self.interpolation, self.fill)

    def masks(self, masks: np.ndarray) -> np.ndarray:
        if len(self.centres) == 2:
            return warped_masks(masks, of_positions(self.centres), masks.shape[1:])
        moved = [warp(mask[:, :, None], self.centres, "nearest")[:, :, 0] for mask in masks]
        return np.stack(moved) if moved else masks

    def matrix(self, height: int, width: int) -> np.ndarray:
        return of_positions(self.centres)


@dataclass(frozen=True)
class Placed(Motion):
    """Drawn onto an empty image of size `to` (height, width) where `positions` [3, 3], an affine matrix, moves it."""

    positions: np.ndarray
    to: tuple[int, int]

    def image(self, image: np.ndarray) -> np.ndarray:
        canvas = np.zeros((*self.to, image.shape[2]), np.uint8)
        draw(canvas, image, self.positions)
        return canvas

    def masks(self, masks: np.ndarray) -> np.ndarray:
        return warped_masks(masks, self.positions, self.to)

    def size(self, height: int, width: int) -> tuple[int, int]:
        return self.to

    def matrix(self, height: int, width: int) -> np.ndarray:
        return self.positions


@dataclass(frozen=True)
class Chain(Motion):
    """One motion after another."""

    motions: tuple[Motion, ...]

    def image(self, image: np.ndarray) -> np.ndarray:
        for motion in self.motions:
            image = motion.image(image)
        return image

    def masks(self, masks: np.ndarray) -> np.ndarray:
        for motion in self.motions:
            masks = motion.masks(masks)
        return masks

    def size(self, height: int, width: int) -> tuple[int, int]:
        for motion in self.motions:
            height, width = motion.size(height, width)
        return height, width

    def matrix(self, height: int, width: int) -> np.ndarray:
        total = np.eye(3)
        for motion in self.motions:
            total = motion.matrix(height, width) @ total
            height, width = motion.size(height, width)
        return total
