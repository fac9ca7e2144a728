"""Look data sets of objects over before training: boxes, masks, keypoints, classes, and images in two splits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np

from pdl.data import Dataset, Sample
from pdl.data.checks import Progress, Source, check, open_all, shorten
from pdl.data.faults import Fault
from pdl.errors import listed
from pdl.train import Recipe
from pdl_cv.detection.look_alikes import look_alikes, thumbnail
from pdl_cv.detection.overlaps import box_areas, box_overlaps

Array = np.ndarray[Any, Any]
Finding = tuple[str, int | None, str, str, str]
"""Kind, number of the object (None: the sample), what, advice, severity."""

OFF = 1.0  # pixels by which boxes may be outside: annotations are rounded
TWICE = 0.98  # IoU from which on two boxes are the same
RARE = 10  # objects below which a class is almost absent; also below
FEW = 0.02  # of the mean over classes
COCO = (80, 91)  # classes of COCO, without and with the numbers that it leaves out
STRIDE = 8  # of the finest feature map of most detectors
SMALL = 0.05  # share of boxes that the net cannot see, from which on it is said


@dataclass
class _Seen:
    """What is kept of a split: of samples by index, of objects in any order."""

    thumbnails: dict[int, Array] = field(default_factory=dict)
    objects: dict[int, Array] = field(default_factory=dict)  # labels
    sides: dict[int, Array] = field(default_factory=dict)  # of boxes, as shares of the longer side of the image


def check_recipe(recipe: Recipe, progress: Progress | None = None) -> list[Fault]:
    """The faults of a recipe's data sets (see `check_boxes`), at the size that its transforms for evaluation give."""
    splits = {split: partial(recipe.data.build, split, on_error="skip") for split in recipe.data.splits}
    sizes = [each.size for each in recipe.data.transforms(training=False) if hasattr(each, "size")]
    size = int(np.max(sizes[-1])) if sizes else None
    return check_boxes(splits, size=size, stride=STRIDE, progress=progress)


def check_boxes(
    datasets: Mapping[str, Source],
    *,
    size: int | None = None,
    stride: int | None = None,
    progress: Progress | None = None,
    limit: int = 20,
    workers: int = 2,
) -> list[Fault]:
    """Read every sample of the named data sets (train, val, test) and return the faults found.

    of boxes       outside of the image, without area, corners exchanged, labels beyond the class list, the same box
                   twice
    of masks       of another size than the image, empty, elsewhere than their box; of keypoints: outside
    of a split     images without objects, classes without objects or with almost none, a class list that is COCO's
                   own with most of it unused, boxes that are too small for the net
    of two splits  the same image in both, also re-encoded or resized (warnings, as neighbouring frames of a video
                   look the same)
    and            what `pdl.data.check` finds in all data sets

    size, stride  of the net's input (its longer side) and of its finest feature map, in pixels: boxes that are narrower
                  or lower than half a stride at that size are counted; None: not looked for
    """
    faults: list[Fault] = []
    opened = {split: each for split, each in open_all(datasets, faults).items() if len(each)}
    seen: dict[str, _Seen] = {split: _Seen() for split in opened}

    def inspect(split: str, dataset: Dataset, index: int, sample: Sample) -> Iterator[tuple[str, Fault]]:
        _keep(seen[split], index, sample)
        for kind, number, what, advice, severity in _sample_findings(sample, len(dataset.classes)):
            path, line, named = _place(dataset, index, number)
            yield kind, Fault(path, index, f"{named}{what}", advice, line, split, severity)

    faults += _annotations(opened, limit)
    faults += check(opened, progress=progress, limit=limit, workers=workers, inspect=inspect)
    for split, dataset in opened.items():
        faults += _split_faults(split, dataset, seen[split], size, stride)
    for first, second in combinations(opened, 2):
        alike = _alike(first, opened[first], seen[first], second, opened[second], seen[second], faults)
        faults += shorten(alike, limit, second)
    return faults


def _annotations(datasets: Mapping[str, Dataset], limit: int) -> Iterator[Fault]:
    """What was found as the data sets were opened, which may read the same files for each split: each once."""
    told: set[tuple[str | None, int | None, str]] = set()
    for split, dataset in datasets.items():
        found = [each for each in dataset.faults if (each.path, each.line, each.what) not in told]
        told |= {(each.path, each.line, each.what) for each in found}
        for severity in ("error", "warning"):
            yield from shorten([each for each in found if each.severity == severity], limit, split)


def _keep(seen: _Seen, index: int, sample: Sample) -> None:
    image, boxes = sample["image"], sample["boxes"]
    if image.dtype == np.uint8:
        seen.thumbnails[index] = thumbnail(image)
    seen.objects[index] = sample["labels"]
    seen.sides[index] = (boxes[:, 2:] - boxes[:, :2]).min(axis=1, initial=np.inf) / max(image.shape[:2])


def _place(dataset: Dataset, index: int, number: int | None) -> tuple[str | None, int | None, str]:
    """The file and line that an object is annotated in, and what it is called where that is not known."""
    if number is None:
        return dataset.path_of(index), None, ""
    find: Callable[[int, int], tuple[str, int | None]] | None = getattr(dataset, "place_of", None)
    if find is None:
        return dataset.path_of(index), None, f"object {number}: "
    return *find(index, number), ""


# -- one sample --------------------------------------------------------------------------------------------------------
def _sample_findings(sample: Sample, classes: int) -> Iterator[Finding]:
    height, width = sample["image"].shape[:2]
    boxes, labels = np.asarray(sample["boxes"], np.float64), np.asarray(sample["labels"])
    whole = yield from _box_findings(boxes, height, width)
    for k in np.flatnonzero((labels < 0) | (labels >= classes)).tolist():
        what = f"label {labels[k]} is outside of 0..{classes - 1} ({classes} classes)"
        yield "label", k, what, "correct the label or the class list", "error"
    yield from _twice(boxes, labels, whole)
    if "masks" in sample:
        yield from _mask_findings(np.asarray(sample["masks"]), boxes, whole, height, width)
    if "keypoints" in sample:
        yield from _point_findings(np.asarray(sample["keypoints"]), height, width)


def _box_findings(boxes: Array, height: int, width: int) -> Any:
    """Faults of the boxes; returns which of them are whole, bool [n]."""
    finite: Array = np.all(np.isfinite(boxes), axis=1)
    wide = boxes[:, 2:] - boxes[:, :2]
    swapped, flat = finite & np.any(wide < 0, axis=1), finite & np.any(wide == 0, axis=1)
    frame = np.array([width, height], np.float64)
    gone = finite & np.any((boxes[:, :2] >= frame) | (boxes[:, 2:] <= 0), axis=1)
    over = finite & np.any((boxes[:, :2] < -OFF) | (boxes[:, 2:] > frame + OFF), axis=1)
    for k in range(len(boxes)):
        said = f"the box {_shown(boxes[k])}"
        extent = f"the image has {width} x {height} pixels"
        if not finite[k]:
            yield "finite", k, f"{said} is no box", "correct its coordinates", "error"
        elif swapped[k]:
            yield "swapped", k, f"{said} ends before it begins (x1, y1, x2, y2)", "exchange its corners", "error"
        elif flat[k]:
            yield "area", k, f"{said} has no area", "draw it again, or remove it", "error"
        elif gone[k]:
            what = f"{said} lies outside: {extent}"
            yield "gone", k, what, "correct it; are its coordinates those of another size?", "error"
        elif over[k]:
            yield "outside", k, f"{said} reaches beyond the edge: {extent}", "cut it at the edge", "warning"
    return finite & ~swapped & ~flat & ~gone


def _twice(boxes: Array, labels: Array, whole: Array) -> Iterator[Finding]:
    use = np.flatnonzero(whole)
    same = np.triu(box_overlaps(boxes[use], boxes[use], np.zeros(len(use), np.bool_)) >= TWICE, 1)
    for a, b in zip(*(use[each].tolist() for each in np.nonzero(same)), strict=True):
        if labels[a] == labels[b]:
            yield "twice", b, f"the box {_shown(boxes[b])} is there twice", "remove one of them", "warning"
        else:
            yield "classes", b, f"the box {_shown(boxes[b])} has two classes", "keep the right one", "warning"


def _shown(numbers: Array) -> str:
    return f"({', '.join(f'{v:g}' for v in numbers)})"


def _mask_findings(masks: Array, boxes: Array, whole: Array, height: int, width: int) -> Iterator[Finding]:
    if masks.shape[1:] != (height, width) or len(masks) != len(boxes):
        expected = (len(boxes), height, width)
        what = f"masks of shape {masks.shape}, {expected} (objects, rows, columns of the image) are expected"
        yield "mask size", None, what, "give each object a mask of the image's size", "error"
        return
    columns, rows = np.asarray(masks.any(axis=1)), np.asarray(masks.any(axis=2))
    for k in range(len(masks)):
        if not columns[k].any():
            yield "empty mask", k, "its mask has no pixels", "outline the object again, or remove it", "error"
            continue
        x, y = np.flatnonzero(columns[k]), np.flatnonzero(rows[k])
        around = np.array([[x[0], y[0], x[-1] + 1, y[-1] + 1]], np.float64)
        iou = float(box_overlaps(around, boxes[k : k + 1], np.zeros(1, np.bool_))[0, 0]) if whole[k] else 1.0
        if iou < 0.5 and max(box_areas(around)[0], box_areas(boxes[k : k + 1])[0]) > 64:
            what = f"its mask lies within {_shown(around[0])}, its box is {_shown(boxes[k])}"
            yield "mask place", k, what, "do they belong together?", "warning"


def _point_findings(points: Array, height: int, width: int) -> Iterator[Finding]:
    known = points[..., 2] > 0
    beyond = known & ((points[..., :2] < -OFF) | (points[..., :2] > np.array([width, height]) + OFF)).any(axis=-1)
    for k in np.flatnonzero(beyond.any(axis=1)).tolist():
        p = int(beyond[k].argmax())
        what = f"keypoint {p} {_shown(points[k, p, :2])} is outside, the image has {width} x {height} pixels"
        yield "points", k, what, "correct it, or give it visibility 0", "warning"


# -- a split -----------------------------------------------------------------------------------------------------------
def _split_faults(split: str, dataset: Dataset, seen: _Seen, size: int | None, stride: int | None) -> list[Fault]:
    found = [*_class_findings(split, list(dataset.classes), seen), *_bare(dataset, seen)]
    if size and stride:
        found += _small(seen, size, stride)
    return [Fault(path, None, what, advice, split=split, severity=severity) for path, what, advice, severity in found]


def _class_findings(split: str, classes: list[str], seen: _Seen) -> Iterator[tuple[str | None, str, str, str]]:
    if not seen.objects or not classes:
        return
    labels = np.concatenate([*seen.objects.values()])
    counts = np.bincount(labels[(labels >= 0) & (labels < len(classes))], minlength=len(classes))
    absent = np.flatnonzero(counts == 0)
    if len(classes) in COCO and 2 * len(absent) > len(classes):
        what = f"the class list has {len(classes)} names, as COCO's own, and {len(absent)} of them have no objects"
        names = listed(classes[k] for k in np.flatnonzero(counts))
        yield None, what, f"was it left in from an example? keep those that are yours: {names}", "error"
    elif len(absent):
        names = listed(classes[k] for k in absent)
        severity = "error" if split == "train" else "warning"
        what = f"{len(absent)} of {len(classes)} classes have no objects: {names}"
        yield None, what, "label some, or take the class out of the list", severity
    rare = np.flatnonzero((counts > 0) & ((counts < RARE) | (counts < FEW * counts.mean())))
    if split == "train" and len(rare):
        names = listed(f"{classes[k]} ({counts[k]})" for k in rare[np.argsort(counts[rare], kind="stable")])
        what = f"of {len(rare)} of {len(classes)} classes there are almost no objects: {names}; {counts.sum():,} in all"
        yield None, what, "label more, or expect little of them", "warning"


def _bare(dataset: Dataset, seen: _Seen) -> Iterator[tuple[str | None, str, str, str]]:
    bare = [index for index, labels in sorted(seen.objects.items()) if not len(labels)]
    if bare:
        share = len(bare) / len(seen.objects)
        what = f"{len(bare):,} of {len(seen.objects):,} images ({share:.0%}) have no objects, the first is this"
        advice = "fine where there is nothing to see; otherwise label them, or leave them out (empty=false)"
        yield dataset.path_of(bare[0]), what, advice, "error" if share == 1 else "warning"


def _small(seen: _Seen, size: int, stride: int) -> Iterator[tuple[str | None, str, str, str]]:
    sides = np.concatenate([*seen.sides.values()]) * size if seen.sides else np.zeros(0)
    share = float((sides < stride / 2).mean()) if len(sides) else 0.0
    if share >= SMALL:
        what = f"{share:.0%} of {len(sides):,} boxes have a side below {stride / 2:g} pixels in the net's {size}"
        advice = (
            f"the net looks every {stride} pixels: take a larger input or tiles "
            f"(the median of the shorter sides is {np.median(sides):.0f} pixels)"
        )
        yield None, what, advice, "warning"


# -- two splits --------------------------------------------------------------------------------------------------------
def _alike(
    first: str, a: Dataset, seen_a: _Seen, second: str, b: Dataset, seen_b: _Seen, known: list[Fault]
) -> list[Fault]:
    """Images that look the same, but for those that are known to be."""
    told = {(each.split, each.index) for each in known if each.what.startswith(f"the same image is in {first}")}
    if not seen_a.thumbnails or not seen_b.thumbnails:
        return []
    rows_a, rows_b = list(seen_a.thumbnails), sorted(seen_b.thumbnails)
    small_a, small_b = np.stack([*seen_a.thumbnails.values()]), np.stack([seen_b.thumbnails[k] for k in rows_b])
    faults = []
    for i, j, apart in look_alikes(small_a, small_b):
        index = rows_b[j]
        if (second, index) not in told:
            twin = a.path_of(rows_a[i]) or f"{first} index {rows_a[i]}"
            what = f"looks like an image in {first}: {twin} (they differ by {apart:.1f} of 255 gray levels)"
            advice = f"if it is the same, re-encoded or resized, or the next frame of a video, {second} measures memory"
            faults.append(Fault(b.path_of(index), index, what, advice, split=second, severity="warning"))
    return faults
