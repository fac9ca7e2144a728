"""COCO's files of results (https://cocodataset.org/#format-results), of whatever program, and how good they are.
`pdl_cv.steps.coco` writes them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from pdl.data.faults import fault, unreadable
from pdl.files import read_bytes
from pdl_cv.data import DetectionFolder
from pdl_cv.detection.metrics import AveragePrecision, Kind, evaluate_detections

Array = np.ndarray[Any, Any]
_ADVICE = "results are a list of {image_id, category_id, bbox: [x, y, width, height], score}"


@dataclass(frozen=True)
class CocoIds:
    """The numbers by which a file of annotations calls its images (by file name) and categories (by name)."""

    images: dict[str, Any]
    categories: dict[str, int]

    @classmethod
    def read(cls, path: str | Path) -> CocoIds:
        """Those of a file of annotations. DataFault for what is none."""
        return cls.of(_json(path), path)

    @classmethod
    def of(cls, page: Any, path: str | Path) -> CocoIds:
        """Those of what a file holds."""
        try:
            images = {str(each["file_name"]): each["id"] for each in page["images"]}
            categories = {str(each["name"]): int(each["id"]) for each in page["categories"]}
        except (TypeError, KeyError, ValueError) as error:
            said = f"no {error}" if isinstance(error, KeyError) else str(error)
            raise fault(path, f"no annotations of COCO: {said}", "name a file with images and categories") from error
        return cls(images, categories)


def read_results(
    path: str | Path, classes: Sequence[str], ids: CocoIds, *, kind: Kind = "boxes"
) -> dict[str, dict[str, Any]]:
    """The detections of each image by its file name, as `pdl_cv.detection.metrics.evaluate_detections` takes them for
    this `kind`; images without results have none. Masks stay run-length codes.

    The file holds a list of results, with the numbers of images and categories in `ids`, or annotations with scores, as
    `pdl predict --coco` writes them: these have numbers of their own, and go by the names of images (without folders,
    where those in `ids` tell them apart) and categories. DataFault for a file that holds neither, results of other
    images or categories, or some without what the kind needs ("bbox", "segmentation" or "keypoints").
    """
    page, own, plain = _json(path), ids, {PurePath(name).name: name for name in ids.images}
    if isinstance(page, dict) and "annotations" in page:
        own, page = CocoIds.of(page, path), page["annotations"]
    if not isinstance(page, list):
        raise fault(path, f"a {type(page).__name__}, no list of results", _ADVICE)
    if len(plain) < len(ids.images):
        plain = {}
    found = {number: plain.get(PurePath(name).name, name) for name, number in own.images.items()}
    names = {number: name for number, name in found.items() if name in ids.images}
    labels = {own.categories[name]: label for label, name in enumerate(classes) if name in own.categories}
    rows: dict[str, list[Mapping[str, Any]]] = {name: [] for name in ids.images}
    for number, each in enumerate(page):
        try:
            image, category = each["image_id"], each["category_id"]
            if image not in names or category not in labels:
                raise ValueError(f"image_id {image!r} or category_id {category!r} is not in the annotations")
            made = {"scores": float(each["score"]), "labels": labels[category], kind: _READERS[kind](each)}
        except (TypeError, KeyError, ValueError) as error:
            said = f"no {error}" if isinstance(error, KeyError) else str(error)
            raise fault(path, f"result {number}: {said}", _ADVICE, index=number) from error
        rows[names[image]].append(made)
    return {name: _columns(each, kind) for name, each in rows.items()}


def _box(result: Mapping[str, Any]) -> tuple[float, ...]:
    x, y, width, height = map(float, result["bbox"])
    return x, y, x + width, y + height


def _mask(result: Mapping[str, Any]) -> dict[str, Any]:
    found = result["segmentation"]
    if not isinstance(found, dict):
        raise ValueError("segmentation is no run-length code {size, counts}")
    return {key: found[key] for key in ("size", "counts")}


def _points(result: Mapping[str, Any]) -> Array:
    return np.array(result["keypoints"], np.float64).reshape(-1, 3)


_READERS: dict[Kind, Callable[[Mapping[str, Any]], Any]] = {"boxes": _box, "masks": _mask, "keypoints": _points}


def evaluate_results(
    annotations: str | Path, results: str | Path, *, kind: Kind = "boxes", **settings: Any
) -> AveragePrecision:
    """Compare a file of results, of whatever program, with a file of annotations: `evaluate_results(...).numbers()`.

    `kind` and `settings` are those of `evaluate_detections`. No image is read.
    """
    masks, keypoints = kind == "masks", kind == "keypoints"
    known = DetectionFolder(annotations, format="coco", masks=masks, keypoints=keypoints, images=False)
    found = read_results(results, known.classes, CocoIds.read(annotations), kind=kind)
    if len(found) != len(known):
        raise fault(annotations, f"{len(known)} images, of {len(found)} names", "give each image a name of its own")
    truth = [known.annotation(i) for i in range(len(known))]
    return evaluate_detections([*found.values()], truth, known.classes, kind=kind, **settings)


def _columns(rows: list[Mapping[str, Any]], kind: Kind) -> dict[str, Any]:
    own = [each[kind] for each in rows]
    return {
        "scores": np.array([each["scores"] for each in rows], np.float64),
        "labels": np.array([each["labels"] for each in rows], np.int64),
        kind: own if kind == "masks" or not own else np.array(own),
    }


def _json(path: str | Path) -> Any:
    try:
        return json.loads(read_bytes(path))
    except OSError as error:
        raise unreadable(path, error) from error
    except (ValueError, RecursionError) as error:
        raise fault(path, f"no JSON: {error}", "write the file again") from error
