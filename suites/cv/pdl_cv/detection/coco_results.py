"""Answers as COCO's result files have them (https://cocodataset.org/#format-results)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pdl.data.faults import fault, unreadable
from pdl.errors import DataError
from pdl.files import read_bytes, write_atomic
from pdl_cv import rle
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
        page = _json(path)
        try:
            images = {str(each["file_name"]): each["id"] for each in page["images"]}
            categories = {str(each["name"]): int(each["id"]) for each in page["categories"]}
        except (TypeError, KeyError, ValueError) as error:
            said = f"no {error}" if isinstance(error, KeyError) else str(error)
            raise fault(path, f"no annotations of COCO: {said}", "name a file with images and categories") from error
        return cls(images, categories)

    @classmethod
    def numbered(cls, names: Iterable[str], classes: Iterable[str]) -> CocoIds:
        """Images and categories from 1 on, where there is no file of annotations."""
        return cls({name: k for k, name in enumerate(names, 1)}, {name: k for k, name in enumerate(classes, 1)})


def coco_results(
    detections: Mapping[str, Mapping[str, Any]], classes: Sequence[str], ids: CocoIds
) -> list[dict[str, Any]]:
    """A result for each detection.

    detections  by file name of the image: labels int [K], scores [K], boxes [K, 4] (x1, y1, x2, y2), masks uint8
                [K, H, W] or keypoints [K, P, 3] where there are some, in pixels of the original; rows of label -1 are
                left out
    classes     the names of labels

    DataError for an image or class that `ids` lacks.
    """
    _known(classes, ids.categories, "category", "classes")
    _known(detections, ids.images, "image", "pictures")
    made = []
    for name, found in detections.items():
        for k in np.flatnonzero(np.asarray(found["labels"]) >= 0).tolist():
            result = {"image_id": ids.images[name], "category_id": ids.categories[classes[int(found["labels"][k])]]}
            made.append({**result, **_shapes(found, k), "score": _rounded(found["scores"][k], 6)})
    return made


def _known(names: Iterable[str], ids: Mapping[str, Any], what: str, whose: str) -> None:
    missing = [name for name in names if name not in ids]
    if missing:
        raise DataError(
            f"the annotations have no {what} {missing[0]!r} ({len(missing)} of the {whose} are not in them); "
            "they must be of the same data"
        )


def _shapes(found: Mapping[str, Any], k: int) -> dict[str, Any]:
    made: dict[str, Any] = {}
    if "boxes" in found:
        x1, y1, x2, y2 = (float(each) for each in found["boxes"][k])
        made["bbox"] = _rounded([x1, y1, x2 - x1, y2 - y1], 3)
    if found.get("masks") is not None:
        mask = np.asarray(found["masks"][k])
        made["segmentation"] = {"size": list(mask.shape), "counts": rle.to_text(rle.encode(mask))}
    if found.get("keypoints") is not None:
        made["keypoints"] = _rounded(np.ravel(found["keypoints"][k]), 3)
    return made


def _rounded(values: Any, places: int) -> Any:
    return np.round(np.asarray(values, np.float64), places).tolist()


def write_results(path: str | Path, results: Sequence[Mapping[str, Any]]) -> None:
    """A file that pycocotools and evaluation servers read."""
    write_atomic(path, "[" + ",\n".join(json.dumps(each) for each in results) + "]\n")


def read_results(path: str | Path, classes: Sequence[str], ids: CocoIds) -> dict[str, dict[str, Any]]:
    """What `coco_results` was given, by file name; images without results have none. Masks stay run-length codes, which
    `MaskAP` takes. DataFault for a file that holds no results, or of other images or categories."""
    page = _json(path)
    if not isinstance(page, list):
        raise fault(path, f"a {type(page).__name__}, no list of results", _ADVICE)
    names = {number: name for name, number in ids.images.items()}
    labels = {ids.categories[name]: label for label, name in enumerate(classes) if name in ids.categories}
    rows: dict[str, list[Mapping[str, Any]]] = {name: [] for name in ids.images}
    for number, each in enumerate(page):
        try:
            image, category = each["image_id"], each["category_id"]
            if image not in names or category not in labels:
                raise ValueError(f"image_id {image!r} or category_id {category!r} is not in the annotations")
            x, y, width, height = (float(v) for v in each["bbox"]) if "bbox" in each else (0.0,) * 4
            made = {"boxes": (x, y, x + width, y + height), "scores": float(each["score"]), "labels": labels[category]}
            if "segmentation" in each:
                made["masks"] = {key: each["segmentation"][key] for key in ("size", "counts")}
            if "keypoints" in each:
                made["keypoints"] = np.array(each["keypoints"], np.float64).reshape(-1, 3)
        except (TypeError, KeyError, ValueError) as error:
            said = f"no {error}" if isinstance(error, KeyError) else str(error)
            raise fault(path, f"result {number}: {said}", _ADVICE, index=number) from error
        rows[names[image]].append(made)
    return {name: _columns(each) for name, each in rows.items()}


def evaluate_results(
    annotations: str | Path, results: str | Path, *, kind: Kind = "boxes", **settings: Any
) -> AveragePrecision:
    """Compare a file of results, of whatever program, with a file of annotations: `evaluate_results(...).numbers()`.

    `kind` and `settings` are those of `evaluate_detections`. No image is read.
    """
    known = DetectionFolder(annotations, format="coco", masks=kind == "masks", keypoints=kind == "keypoints")
    found = read_results(results, known.classes, CocoIds.read(annotations))
    if len(found) != len(known):
        raise fault(annotations, f"{len(known)} images, of {len(found)} names", "give each image a name of its own")
    truth = [known.annotation(i) for i in range(len(known))]
    return evaluate_detections([*found.values()], truth, known.classes, kind=kind, **settings)


def _columns(rows: list[Mapping[str, Any]]) -> dict[str, Any]:
    made: dict[str, Any] = {
        "boxes": np.array([each["boxes"] for each in rows], np.float64).reshape(-1, 4),
        "scores": np.array([each["scores"] for each in rows], np.float64),
        "labels": np.array([each["labels"] for each in rows], np.int64),
    }
    if rows and "masks" in rows[0]:
        made["masks"] = [each["masks"] for each in rows]
    if rows and "keypoints" in rows[0]:
        made["keypoints"] = np.stack([each["keypoints"] for each in rows])
    return made


def _json(path: str | Path) -> Any:
    try:
        return json.loads(read_bytes(path))
    except OSError as error:
        raise unreadable(path, error) from error
    except (ValueError, RecursionError) as error:
        raise fault(path, f"no JSON: {error}", "write the file again") from error
