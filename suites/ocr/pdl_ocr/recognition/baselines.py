"""What reads lines without learning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data import Dataset
from pdl.data.transforms.pixels import resize
from pdl.train.classical import spread

if TYPE_CHECKING:
    from pdl_ocr.recognition.task import TextRecognition

SIZE = (8, 32)  # height and width at which lines are compared


def baselines(task: TextRecognition, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
    """The text of the nearest line among at most 10,000 for training, all scaled to 8 x 32 gray pixels with mean 0 and
    norm 1."""
    train = datasets["train"]
    rows = spread(len(train))
    (known, texts), (asked, expected) = _pixels(train, rows), _pixels(datasets[split], np.arange(len(datasets[split])))
    nearest = (asked @ known.T).argmax(axis=1)
    found = [task.clean(texts[i]) for i in nearest.tolist()]
    measured = {name: metric for name, metric in task.metrics().items() if name != "read"}
    for metric in measured.values():
        metric.update(found, [task.clean(text) for text in expected], np.arange(len(found)))
    return {"nearest line": {name: float(metric.compute()) for name, metric in measured.items()}}


def _pixels(dataset: Dataset, rows: np.ndarray) -> tuple[np.ndarray, list[str]]:
    """float32 [N, 256] of the images of some lines, and their texts."""
    found, texts = [], []
    for row in rows.tolist():
        sample = dataset[row]
        small = resize(np.asarray(sample["image"]), SIZE, "area").astype(np.float32).mean(axis=2).ravel()
        small -= small.mean()
        found.append(small / max(float(np.linalg.norm(small)), 1e-6))
        texts.append(sample["text"])
    return np.stack(found), texts
