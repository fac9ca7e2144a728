"""What the training race of detectors learns from. Imports no framework, so every side reads the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import workloads

#: a rate at which the boxes that fresh nets find stay near where they are
SGD: dict[str, Any] = {**workloads.SGD, "lr": 1e-4}
BATCH, SIZE, OBJECTS, CLASSES = 8, 320, 8, 80


def batch() -> tuple[Any, Any, Any]:
    """Images float32 [8, 320, 320, 3] of noise and rectangles, boxes float32 [8, 8, 4] and labels int64 [8, 8], which
    COCO's images have about as many of (7.3)."""
    rng = np.random.default_rng(0)
    images = rng.normal(0, 0.3, (BATCH, SIZE, SIZE, 3))
    low = rng.uniform(0, SIZE - 40, (BATCH, OBJECTS, 2))
    high = np.minimum(low + np.exp(rng.uniform(np.log(16), np.log(200), low.shape)), SIZE)
    boxes, labels = np.concatenate([low, high], 2).astype(np.float32), rng.integers(0, CLASSES, (BATCH, OBJECTS))
    for image, those in zip(images, boxes, strict=True):
        for x1, y1, x2, y2 in those.astype(int):
            image[y1:y2, x1:x2] += rng.normal(0, 1, 3)
    return images.astype(np.float32), boxes, labels
