"""Images drawn at random: ground truths that overlap, touch, repeat, have no area; padding; images without any."""

from __future__ import annotations

from typing import Any

import numpy as np

from pdl.dtype import Array


def boxes_and_labels(rng: Any, n: int, m: int, classes: int, size: float = 64.0) -> tuple[Array, Array]:
    """boxes [n, m, 4], labels [n, m]: up to m ground truths an image, padding between them, too."""
    corner, side = rng.uniform(-4, size, (n, m, 2)), rng.uniform(0, size / 2, (n, m, 2)) ** rng.choice([0.5, 1.0])
    boxes = np.concatenate([corner, corner + side], -1)
    labels = np.where(rng.random((n, m)) < rng.choice([0.0, 0.3, 1.0]), -1, rng.integers(0, classes, (n, m)))
    if m > 1 and rng.random() < 0.5:  # the same box again, perhaps of another class
        boxes[:, rng.integers(m)] = boxes[:, rng.integers(m)]
    if rng.random() < 0.3:  # corners swapped, no area
        boxes[:, rng.integers(m)] = rng.choice([[9.0, 9.0, 3.0, 3.0], [5.0, 5.0, 5.0, 20.0]])
    if rng.random() < 0.2:
        boxes[:, rng.integers(m), rng.integers(4)] = rng.choice([np.nan, np.inf, -np.inf])
    return np.where(labels[..., None] < 0, rng.choice([0.0, np.nan]), boxes), labels.astype(np.int64)


def grid(levels: tuple[tuple[int, float], ...]) -> tuple[Array, Array]:
    """points [A, 2] and strides [A] of levels of (cells a side, stride)."""
    made = [np.stack(np.meshgrid(np.arange(c), np.arange(c)), -1).reshape(-1, 2) * s + s / 2 for c, s in levels]
    return np.concatenate(made), np.concatenate([np.full(c * c, float(s)) for c, s in levels])


def predictions(rng: Any, points: Array, n: int, classes: int) -> tuple[Array, Array]:
    """predicted [n, A, 4] near their points, scores [n, A, classes] up to the ends of their range."""
    reach = rng.uniform(-2, 20, (n, len(points), 4)) * np.array([-1, -1, 1, 1])
    logits = rng.normal(0, rng.choice([1, 30, 1000]), (n, len(points), classes)).clip(-700, 700)
    return np.tile(points, 2) + reach, 1 / (1 + np.exp(-logits))
