"""What is known without looking at an image: where objects of each class mostly are."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from pdl.data import Dataset, Subset
from pdl.train import Recipe, Task
from pdl.train.classical import spread
from pdl_cv.detection.overlaps import Runs

CELLS = 4  # along each axis, by which middles of boxes are sorted
MOST = 50  # boxes that are answered
Array = np.ndarray


def baselines(task: Task, recipe: Recipe, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
    """Typical boxes: the same for every image, those that are most frequent in at most 10,000 images of the training
    data, in shares of height and width. Boxes are sorted by class, cell of their middle and size in powers of two, and
    averaged; a mask is its whole box."""
    train = datasets["train"]
    if not isinstance(train, Dataset):
        return {}
    boxes, labels, scores = typical(_originals(task, recipe, Subset(train, spread(len(train)))))
    metrics = task.metrics()
    for known in _originals(task, recipe, datasets[split]):
        height, width = known["size"]
        found = {"boxes": boxes * (width, height, width, height), "labels": labels, "scores": scores}
        if "masks" in known:
            found["masks"] = Runs.of(_filled(found["boxes"], height, width))
        for metric in metrics.values():
            metric.update([found], [known])
    numbers = {name: metric.compute() for name, metric in metrics.items()}
    shown = {name: float(x) for name, x in numbers.items() if isinstance(x, int | float) and math.isfinite(x)}
    return {"typical boxes": shown}


def typical(images: Iterator[Mapping[str, Any]]) -> tuple[Array, Array, Array]:
    """Boxes [k, 4] in shares of width and height, their labels [k] and how frequent they are [k], most frequent first,
    of the annotations of images with their "size" (height, width)."""
    groups: dict[tuple[int, ...], list[Array]] = {}
    for known in images:
        height, width = known["size"]
        for box, label in zip(known["boxes"] / (width, height, width, height), known["labels"], strict=True):
            extent = np.maximum(box[2:] - box[:2], 1e-4)
            middle = np.clip((box[:2] + box[2:]) / 2 * CELLS, 0, CELLS - 1).astype(int)
            groups.setdefault((int(label), *middle, *np.rint(np.log2(extent)).astype(int)), []).append(box)
    best = sorted(groups.items(), key=lambda each: (-len(each[1]), each[0]))[:MOST]
    total = max(1, sum(map(len, groups.values())))
    boxes = np.array([np.mean(group, axis=0) for _, group in best], np.float64).reshape(-1, 4)
    return boxes, np.array([key[0] for key, _ in best], np.int64), np.array([len(g) / total for _, g in best])


def _originals(task: Task, recipe: Recipe, dataset: Any) -> Iterator[Mapping[str, Any]]:
    """The annotations of all images, in pixels of the originals."""
    for batch in task.loader(dataset, recipe, training=False, seed=0):
        yield from batch["original"]


def _filled(boxes: Array, height: int, width: int) -> Array:
    """Masks uint8 [k, H, W] of whole boxes."""
    masks = np.zeros((len(boxes), height, width), np.uint8)
    for mask, (x1, y1, x2, y2) in zip(masks, np.rint(boxes).astype(int), strict=True):
        mask[max(0, y1) : y2, max(0, x1) : x2] = 1
    return masks
