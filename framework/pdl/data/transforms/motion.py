"""Motions: what a geometric transform does to the pixels of one image, its random numbers drawn.

A `Motion` moves an image, instance masks and, by its matrix, positions. Positions are those of boxes, keypoints and
points: pixel (0, 0) covers the square from 0 to 1. OpenCV's warps count from the centres of pixels instead: their
matrices are those of `Warp` and `affine_matrix`, where the centre of an image is ((W-1)/2, (H-1)/2).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np

from pdl.data.transforms._args import BORDER, INTERPOLATION, Border, scalar
from pdl.errors import UsageError
from pdl.runtime.images import require_room


# -- pixels ------------------------------------------------------------------------------------------------------------
def with_channels(image: np.ndarray) -> np.ndarray:
    """[H, W] to [H, W, 1]: OpenCV drops a last axis of one channel."""
    return image[:, :, None] if image.ndim == 2 else image


def resize(image: np.ndarray, size: Any, interpolation: str = "auto") -> np.ndarray:
    """image [H, W, C] scaled to size (height, width); "auto" averages areas when shrinking and is linear otherwise."""
    h, w = size
    if image.shape[:2] == size:
        return image
    require_room((h, w, image.shape[2]))
    if interpolation == "auto":
        interpolation = "area" if h * w < image.shape[0] * image.shape[1] else "linear"
    return with_channels(cv2.resize(image, (w, h), interpolation=INTERPOLATION[interpolation]))


def warp(image: np.ndarray, matrix: np.ndarray, interpolation: str = "linear", fill: Any = (0.0,)) -> np.ndarray:
    """Move each point p to matrix @ p; matrix [2, 3] or [3, 3] on (x, y, 1); uncovered parts get `fill`."""
    h, w, c = image.shape
    function = cv2.warpAffine if matrix.shape[0] == 2 else cv2.warpPerspective
    return with_channels(function(image, matrix, (w, h), flags=INTERPOLATION[interpolation],
                                  borderMode=BORDER["constant"], borderValue=scalar(fill, c)))


def affine_matrix(shape: tuple[int, ...], *, angle: float = 0.0, translate: tuple[float, float] = (0.0, 0.0),
                  scale: float = 1.0, shear: tuple[float, float] = (0.0, 0.0)) -> np.ndarray:
    """The [2, 3] matrix T(centre + translate) R(angle) S(shear) scale T(-centre).

    angle in degrees, counter-clockwise as seen; translate (x, y) in pixels; shear (x, y) in degrees.
    """
    cx, cy = (shape[1] - 1) / 2, (shape[0] - 1) / 2
    a = math.radians(-angle)  # y points down
    rotation = np.array([[math.cos(a), -math.sin(a)], [math.sin(a), math.cos(a)]])
    slant = np.array([[1.0, math.tan(math.radians(shear[0]))], [math.tan(math.radians(shear[1])), 1.0]])
    linear = scale * rotation @ slant
    offset = np.array([cx + translate[0], cy + translate[1]]) - linear @ np.array([cx, cy])
    return np.column_stack([linear, offset])


def pad_images(images: np.ndarray, padding: Any, fill: Any, mode: Border) -> np.ndarray:
    """images [..., H, W, C] with padding = (left, top, right, bottom) pixels more of `fill` (one value, or C)."""
    left, top, right, bottom = padding
    if not any(padding):
        return images
    height, width, channels = images.shape[-3:]
    require_room((height + top + bottom, width + left + right, channels), images.itemsize)
    if mode != "constant":
        _check_reach(images.shape, padding, mode)
        width = [(0, 0)] * (images.ndim - 3) + [(top, bottom), (left, right), (0, 0)]
        return np.pad(images, width, mode="reflect" if mode == "reflect" else "edge")
    *lead, h, w, c = images.shape
    out = np.empty((*lead, h + top + bottom, w + left + right, c), images.dtype)
    out[...] = np.asarray(fill, images.dtype)
    out[..., top:top + h, left:left + w, :] = images
    return out


def _check_reach(shape: tuple[int, ...], padding: tuple[int, int, int, int], mode: Border) -> None:
    h, w = shape[-3:-1]
    if mode == "reflect" and (max(padding[1], padding[3]) >= h or max(padding[0], padding[2]) >= w):
        raise UsageError(f"padding {padding} by reflection needs a larger image than {h} x {w}; use mode='edge'")


def flip(images: np.ndarray, axis: int) -> np.ndarray:
    """images [N, H, W, C] mirrored: axis 1 left-right, axis 0 upside down."""
    if axis == 0:
        return images[:, ::-1]
    rows = np.ascontiguousarray(images).reshape(-1, *images.shape[2:])  # all rows of all images: one tall picture
    return np.asarray(cv2.flip(rows, 1)).reshape(images.shape)


# -- matrices of positions ---------------------------------------------------------------------------------------------
def placed(scale_x: float, scale_y: float, left: float, top: float) -> np.ndarray:
    """The [3, 3] matrix of x -> scale_x x + left and y -> scale_y y + top."""
    return np.array([[scale_x, 0.0, left], [0.0, scale_y, top], [0.0, 0.0, 1.0]])


def of_positions(matrix: np.ndarray) -> np.ndarray:
    """The [3, 3] matrix of positions of a warp, whose matrix [2, 3] or [3, 3] counts from the centres of pixels."""
    square = np.vstack([matrix, [0.0, 0.0, 1.0]]) if matrix.shape[0] == 2 else np.asarray(matrix, np.float64)
    return placed(1, 1, 0.5, 0.5) @ square @ placed(1, 1, -0.5, -0.5)


def of_centres(matrix: np.ndarray) -> np.ndarray:
    """The [3, 3] matrix of a warp that moves positions by `matrix` [3, 3]."""
    return placed(1, 1, -0.5, -0.5) @ matrix @ placed(1, 1, 0.5, 0.5)


# -- motions -----------------------------------------------------------------------------------------------------------
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
        out, centres = np.zeros((len(masks), *self.to), np.uint8), of_centres(self.positions)[:2]
        for number, mask in enumerate(masks):
            out[number] = cv2.warpAffine(mask, centres, self.to[::-1], flags=cv2.INTER_NEAREST)
        return out

    def size(self, height: int, width: int) -> tuple[int, int]:
        return self.to

    def matrix(self, height: int, width: int) -> np.ndarray:
        return self.positions


def draw(canvas: np.ndarray, image: np.ndarray, positions: np.ndarray) -> None:
    """Draw the image uint8 [H, W, C] onto the canvas [h, w, C], where `positions` [3, 3], an affine matrix, moves it.

    Only what is seen is read. Where it shrinks to less than half it is halved first, as linear interpolation between
    two pixels each way would leave out others.
    """
    top, bottom, left, right = _reach(image.shape, positions, canvas.shape)
    if bottom <= top or right <= left:
        return
    positions = placed(1, 1, -left, -top) @ positions
    back = np.linalg.inv(positions)
    shrinks = float(np.abs(back[:2, :2]).max())
    more = 2 + int(2 * shrinks)  # what is averaged and interpolated with
    y1, y2, x1, x2 = _reach((bottom - top, right - left), back, image.shape, more)
    if y2 <= y1 or x2 <= x1:  # turned, so that only its hull reaches into the canvas
        return
    image, positions = image[y1:y2, x1:x2], positions @ placed(1, 1, x1, y1)
    while _grows(positions) <= 1 / 4 and min(image.shape[:2]) > 1:
        h, w = image.shape[0] // 2, image.shape[1] // 2
        image = with_channels(cv2.resize(image[:2 * h, :2 * w], (w, h), interpolation=cv2.INTER_AREA))
        positions = positions @ placed(2, 2, 0, 0)
    part = canvas[top:bottom, left:right]
    made = cv2.warpAffine(image, of_centres(positions)[:2], (right - left, bottom - top), dst=part.copy(),
                          flags=cv2.INTER_LINEAR, borderMode=cv2.BORDER_TRANSPARENT)
    part[...] = with_channels(made)


def _grows(positions: np.ndarray) -> float:
    """How many times larger areas become."""
    (a, b, _), (c, d, _), _ = positions.tolist()
    return float(abs(a * d - b * c))


def _reach(shape: tuple[int, ...], positions: np.ndarray, canvas: tuple[int, ...],
           more: int = 0) -> tuple[int, int, int, int]:
    """(top, bottom, left, right): the whole pixels of a canvas that an image of this shape may change, and so many
    `more` on all sides."""
    out: list[int] = []
    for (a, b, c), limit in zip(positions[1::-1].tolist(), canvas, strict=False):
        middle, half = (a * shape[1] + b * shape[0]) / 2 + c, (abs(a) * shape[1] + abs(b) * shape[0]) / 2
        out += [max(0, math.floor(middle - half) - more), min(limit, math.ceil(middle + half) + more)]
    return out[0], out[1], out[2], out[3]


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
