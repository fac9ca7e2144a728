"""Images that look the same: re-encoded, resized, or neighbouring frames of a video."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import cv2
import numpy as np

Array = np.ndarray[Any, Any]

SIDE = 16  # of thumbnails
DIFFERENT = 8  # bits of 64 in which two images that look the same may differ
CLOSE = 4.0  # gray levels by which their thumbnails may differ, on average,
SHARE = 0.15  # and as a share of their contrast
FLAT = 2.0  # gray levels of contrast: below, images all look the same
_ROWS = 1 << 22  # pairs that are compared at once


def thumbnail(image: Array) -> Array:
    """The means of 16 x 16 fields of an image uint8 [H, W, 1 or 3], gray: uint8 [256]."""
    gray = cv2.cvtColor(image, cv2.COLOR_RGB2GRAY) if image.shape[-1] == 3 else image[..., 0]
    gray = np.ascontiguousarray(gray)
    return cv2.resize(gray, (SIDE, SIDE), interpolation=cv2.INTER_AREA).reshape(-1)


def difference_hashes(thumbnails: Array) -> Array:
    """64 bits of each of uint8 [N, 256]: whether fields of a grid of 8 x 8 are brighter than their right neighbours,
    the last of a row compared with its first. uint64 [N]."""
    grid = thumbnails.reshape(-1, 8, 2, 8, 2).astype(np.int32).sum(axis=(2, 4))
    bits = grid > np.roll(grid, -1, axis=2)
    return np.packbits(bits.reshape(-1, 64), axis=1).view(np.uint64)[:, 0]


def look_alikes(first: Array, second: Array) -> Iterator[tuple[int, int, float]]:
    """Pairs (i, j) of thumbnails uint8 [N, 256] and [M, 256] that look the same, and by how many gray levels they
    differ on average: for each j the closest i. By j.

    Candidates differ in at most 8 of 64 bits; their thumbnails in at most 4 gray levels and 15 % of the contrast.
    """
    a, b = difference_hashes(first), difference_hashes(second)
    values, contrast = first.astype(np.float32), second.std(axis=1)
    step = max(1, _ROWS // max(1, len(a)))
    for start in range(0, len(b), step):
        bits = np.bitwise_count(b[start : start + step, None] ^ a)
        for row in np.flatnonzero((bits <= DIFFERENT).any(axis=1)).tolist():
            j = start + row
            near = np.flatnonzero(bits[row] <= DIFFERENT)
            apart = np.abs(values[near] - second[j]).mean(axis=1)
            best = int(apart.argmin())
            if contrast[j] >= FLAT and apart[best] <= min(CLOSE, SHARE * float(contrast[j])):
                yield int(near[best]), j, float(apart[best])
