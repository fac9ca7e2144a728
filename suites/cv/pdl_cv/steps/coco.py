"""Detections as a COCO file: images, categories and annotations, each of these with its score."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pdl.errors import UsageError
from pdl.files import write_atomic
from pdl_cv.steps.masks import decode


def write_predictions(path: Path, predictions: Iterable[Any], labels: Sequence[str]) -> tuple[int, int]:
    """Write `pdl.runtime.predict.Prediction`s of detectors; how many these were, and how many objects they hold.

    Images are numbered from 1 in their order, categories in the order of the classes. An input without an answer is
    left out. The annotations alone are what COCO's tools load as results.
    """
    if path.suffix.lower() != ".json":
        raise UsageError(f"--coco {path}: annotations are written to a file *.json")
    images: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    count = 0
    for count, each in enumerate(predictions, 1):  # noqa: B007
        if each.error is None:
            height, width = each.answer.value["size"]
            images.append({"id": len(images) + 1, "file_name": each.name, "width": width, "height": height})
            for one in each.answer.value["detections"]:
                annotations.append({"id": len(annotations) + 1, "image_id": len(images), **annotation(one)})
    categories = [{"id": number, "name": name} for number, name in enumerate(labels, 1)]
    made = {"images": images, "categories": categories, "annotations": annotations}
    write_atomic(path, json.dumps(made, ensure_ascii=False).encode())
    return count, len(annotations)


def annotation(one: Mapping[str, Any]) -> dict[str, Any]:
    """One object of an answer in COCO's keys."""
    x1, y1, x2, y2 = one["box"]
    box = [round(v, 2) for v in (x1, y1, x2 - x1, y2 - y1)]
    made = {
        "category_id": one["class"] + 1,
        "bbox": box,
        "area": round(box[2] * box[3], 2),
        "iscrowd": 0,
        "score": one["score"],
    }
    if "mask" in one:
        made |= {"segmentation": one["mask"], "area": int(np.count_nonzero(decode(one["mask"])))}
    return made
