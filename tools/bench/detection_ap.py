"""Average precision of boxes or masks: pdl_cv.detection.metrics against pycocotools, on the same drawn detections.

    python tools/bench/detection_ap.py                                 # 1,000 images, 80 classes, 100 detections each
    python tools/bench/detection_ap.py --images 5000
    python tools/bench/detection_ap.py --masks --images 100

Half of the detections lie near an annotation. Seconds are CPU time of this process, from detections in memory (boxes;
run-length codes of masks) to the twelve numbers; those of pycocotools begin after its index of annotations is made.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import time
from typing import Any

import numpy as np
from pycocotools import mask as coco_masks
from pycocotools.coco import COCO
from pycocotools.cocoeval import COCOeval

from pdl_cv.detection.metrics import evaluate_detections

CLASSES, FOUND, HEIGHT, WIDTH = 80, 100, 480, 640
Objects = dict[str, Any]


def boxes(rng: np.random.Generator, count: int) -> np.ndarray:
    """Boxes anywhere, of sides from 5 to 195 pixels."""
    corner = rng.random((count, 2)) * (WIDTH - 200, HEIGHT - 200)
    return np.concatenate([corner, corner + 5 + rng.random((count, 2)) * 190], axis=1)


def drawn(rng: np.random.Generator, masks: bool) -> tuple[Objects, Objects]:
    """What was found in an image, and what is annotated."""
    count = int(rng.integers(1, 15))
    known: Objects = {"boxes": boxes(rng, count), "labels": rng.integers(0, CLASSES, count)}
    near = rng.integers(0, count, FOUND // 2)
    size = np.tile(known["boxes"][near, 2:] - known["boxes"][near, :2], 2)
    moved = known["boxes"][near] + rng.normal(0, 0.08, size.shape) * size
    labels = rng.integers(0, CLASSES, FOUND)
    labels[: len(near)] = np.where(rng.random(len(near)) < 0.8, known["labels"][near], labels[: len(near)])
    found = {"boxes": np.concatenate([moved, boxes(rng, FOUND - len(near))]), "labels": labels}
    found["scores"] = rng.random(FOUND)
    if masks:
        known["masks"], found["masks"] = (codes(each["boxes"]) for each in (known, found))
    return found, known


def codes(around: np.ndarray) -> list[Objects]:
    """Ellipses in boxes, as run-length codes."""
    y, x = np.mgrid[:HEIGHT, :WIDTH] + 0.5
    made = []
    for x1, y1, x2, y2 in around:
        inside = ((2 * x - x1 - x2) / (x2 - x1)) ** 2 + ((2 * y - y1 - y2) / (y2 - y1)) ** 2 < 1
        made.append(coco_masks.encode(np.asfortranarray(inside.astype(np.uint8))))
    return made


def entries(objects: Objects, image: int) -> list[Objects]:
    """In COCO's keys."""
    made = []
    for k, (x1, y1, x2, y2) in enumerate(objects["boxes"].tolist()):
        one: Objects = {"image_id": image, "category_id": int(objects["labels"][k]) + 1}
        if "masks" in objects:
            one["segmentation"] = objects["masks"][k]
        else:
            one["bbox"] = [x1, y1, x2 - x1, y2 - y1]
        made.append(one | ({"score": float(objects["scores"][k])} if "scores" in objects else {}))
    return made


def pycocotools(found: list[Objects], known: list[Objects], masks: bool) -> tuple[np.ndarray, float]:
    """Its twelve numbers, and the seconds that it took."""
    results = [one for image, each in enumerate(found, 1) for one in entries(each, image)]
    truth = [one for image, each in enumerate(known, 1) for one in entries(each, image)]
    for number, one in enumerate(truth, 1):
        area = float(coco_masks.area(one["segmentation"])) if masks else one["bbox"][2] * one["bbox"][3]
        one |= {"id": number, "iscrowd": 0, "area": area}
    with contextlib.redirect_stdout(io.StringIO()):
        coco = COCO()
        images = [{"id": image, "height": HEIGHT, "width": WIDTH} for image in range(1, len(known) + 1)]
        coco.dataset = {"images": images, "annotations": truth, "categories": [{"id": k + 1} for k in range(CLASSES)]}
        coco.createIndex()
        begin = time.process_time()
        run = COCOeval(coco, coco.loadRes(results), "segm" if masks else "bbox")
        run.evaluate()
        run.accumulate()
        run.summarize()
    return run.stats, time.process_time() - begin


def main() -> None:
    """Draw, measure, compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--masks", action="store_true")
    args = parser.parse_args()
    rng = np.random.default_rng(0)
    found, known = (list(each) for each in zip(*(drawn(rng, args.masks) for _ in range(args.images)), strict=True))
    begin = time.process_time()
    kind = "masks" if args.masks else "boxes"
    numbers = evaluate_detections(found, known, [str(k) for k in range(CLASSES)], kind=kind).numbers()
    ours = time.process_time() - begin
    stats, theirs = pycocotools(found, known, args.masks)
    apart = float(np.abs(np.array([*numbers.values()]) - stats).max())
    print(f"{args.images} images: pdl {ours:.2f} s, pycocotools {theirs:.2f} s: {theirs / ours:.1f} times; ", end="")
    print(f"AP {numbers['AP']:.4f}, the largest difference of the twelve numbers is {apart:.1e}")


if __name__ == "__main__":
    main()
