"""What motions do to pixels, by OpenCV, and the matrices of warps and of positions.

Positions are those of boxes, keypoints and points: pixel (0, 0) covers the square from 0 to 1. OpenCV's warps count
from the centres of pixels instead: so do the matrices of `warp` and `affine_matrix`, where the centre of an image is
((W-1)/2, (H-1)/2).
"""

from __future__ import annotations

import math
from typing import Any

import cv2
import numpy as np

from pdl.data.transforms._args import BORDER, INTERPOLATION, Border, scalar
from pdl.errors import UsageError
from pdl.runtime.images import require_room


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


def mask_boxes(masks: np.ndarray) -> np.ndarray:
    """The boxes float32 [n, 4] around the pixels of masks [n, H, W]; four zeros for a mask without any."""
    out = np.zeros((len(masks), 4), np.float32)
    for axis in (0, 1):  # x of columns, y of rows
        marked: np.ndarray = np.any(masks, axis=1 + axis)
        size = marked.shape[1]
        first, last = marked.argmax(1), size - marked[:, ::-1].argmax(1)
        some = marked.any(1)
        out[some, axis], out[some, axis + 2] = first[some], last[some]
    return out


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


# -- drawing -----------------------------------------------------------------------------------------------------------
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


def warped_masks(masks: np.ndarray, positions: np.ndarray, size: Any) -> np.ndarray:
    """Masks uint8 [n, *size] of those [n, H, W], which `positions` [3, 3], an affine matrix, moves. Of each only the
    part that is not empty is warped."""
    out = np.zeros((len(masks), *size), np.uint8)
    for mask, target, (x1, y1, x2, y2) in zip(masks, out, mask_boxes(masks).astype(int).tolist(), strict=True):
        moved = positions @ placed(1, 1, x1, y1)
        top, bottom, left, right = _reach((y2 - y1, x2 - x1), moved, size)
        if y2 > y1 and bottom > top and right > left:
            centres = of_centres(placed(1, 1, -left, -top) @ moved)[:2]
            target[top:bottom, left:right] = cv2.warpAffine(mask[y1:y2, x1:x2], centres, (right - left, bottom - top),
                                                            flags=cv2.INTER_NEAREST)
    return out


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
