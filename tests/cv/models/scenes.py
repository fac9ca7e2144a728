"""Small images of coloured rectangles, and what is where in them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

import pdl
from pdl_cv.models.detector import Targets

COLOURS = np.array([[0.1, 0.3, 1.0], [1.0, 0.2, 0.1]], np.float32)
MOST = 8


class Scenes(NamedTuple):
    """Images float32 [N, size, size, 3], boxes float32 [N, MOST, 4], labels int64 [N, MOST], -1 behind the last."""

    images: Any
    boxes: Any
    labels: Any

    def targets(self) -> Targets:
        """What a detector's loss takes."""
        return Targets(pdl.tensor(self.boxes), pdl.tensor(self.labels))


def scenes(count: int, *, size: int = 64, seed: int = 0) -> Scenes:
    """One rectangle in even images, two side by side in odd ones; two colours, which are the classes."""
    draw = np.random.default_rng(seed)
    images = 0.1 + 0.05 * draw.standard_normal((count, size, size, 3))
    boxes, labels = np.zeros((count, MOST, 4), np.float32), np.full((count, MOST), -1)
    for i in range(count):
        for j in range(1 + i % 2):
            width, height = draw.integers(size // 5, size // 2 - 4, 2)
            x = int(draw.integers(j * size // 2, (j + 1) * size // 2 - width))
            y, label = int(draw.integers(0, size - height)), int(draw.integers(2))
            images[i, y : y + height, x : x + width] = COLOURS[label]
            boxes[i, j], labels[i, j] = (x, y, x + width, y + height), label
    return Scenes(images.astype(np.float32), boxes, labels)


def overlap(a: Any, b: Any) -> float:
    """Intersection over union of two boxes."""
    shared = np.maximum(np.minimum(a[2:], b[2:]) - np.maximum(a[:2], b[:2]), 0).prod()
    return float(shared / ((a[2:] - a[:2]).prod() + (b[2:] - b[:2]).prod() - shared))
