"""Errors of detections sorted into kinds, and what average precision each kind costs (TIDE: Bolya et al., arXiv
2008.08115)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from pdl_cv.detection.average_precision import Judged, at_half, by_class, class_average, judged
from pdl_cv.detection.matching import Seen, match

Array = np.ndarray[Any, Any]

LEAST, ENOUGH = 0.1, 0.5  # overlaps from which on a detection is near an annotation, and finds it
KINDS = {
    "class": "the right place, another class",
    "place": "the right class, but too little overlap (0.1 to 0.5)",
    "both": "another class, and too little overlap",
    "duplicate": "what a detection of a higher score has found",
    "background": "nothing is annotated there",
    "missed": "an annotation that nothing found, not even with the wrong class or place",
}
_CODES = {kind: number for number, kind in enumerate(KINDS)}


@dataclass(frozen=True)
class ErrorKinds:
    """Errors at an IoU of 0.5.

    counts      of each kind, errors of each class: int64 [C]; of "missed" the class of the annotation
    cost        of each kind, how much AP50 would rise if these errors alone were mended: of the detections that are
                wrong in class or place the best one at every annotation that was not found is put right, all other
                errors are taken away, missed annotations are not counted
    ap50        with all errors
    detections  kind of each detection, in order of images and descending score: int8 [D], the place in `KINDS`; -1
                where it is right or not counted
    images      the image of each: int64 [D]
    found       of each, the row of the annotation that it finds, -1 where it is wrong: int64 [D]
    missed      bool [G], of annotations in order of images
    """

    counts: dict[str, Array]
    cost: dict[str, float]
    ap50: float
    detections: Array
    images: Array
    found: Array
    missed: Array


def error_kinds(seen: Seen, classes: int) -> ErrorKinds:
    """`seen` has pairs from an overlap of 0.1 on."""
    rows, found = match(seen, np.array([ENOUGH]), seen.ignored[:, None])
    took = found[:, 0, 0]
    order = by_class(seen)
    verdict = at_half(seen, classes, order, rows, took)
    wrong = np.zeros(len(seen.scores), np.bool_)
    wrong[verdict.order] = ~verdict.right
    finds = np.full(len(seen.scores), -1)
    finds[rows] = np.where((took >= 0) & ~seen.ignored[took], took, -1)
    done = np.zeros(len(seen.truth), np.bool_)
    done[took[took >= 0]] = True
    same, nearest = _best(seen, seen.same)
    other, foreign = _best(seen, ~seen.same)
    rules = {
        "place": (same >= LEAST) & (same < ENOUGH),
        "class": other >= ENOUGH,
        "duplicate": same >= ENOUGH,
        "both": other >= LEAST,
        "background": np.ones_like(wrong),
    }
    kinds = np.select([wrong & rule for rule in rules.values()], [_CODES[kind] for kind in rules], -1).astype(np.int8)
    goal = np.where(kinds == _CODES["class"], foreign, np.where(kinds == _CODES["place"], nearest, -1))
    near = np.zeros(len(seen.truth), np.bool_)
    near[goal[goal >= 0]] = True
    missed = ~done & ~near & ~seen.ignored
    counts = {kind: np.bincount(seen.labels[kinds == _CODES[kind]], minlength=classes) for kind in KINDS}
    counts["missed"] = np.bincount(seen.truth[missed], minlength=classes)
    now = _mean(verdict)
    cost = {
        kind: max(_mean(made) - now, 0.0) for kind, made in _mended(seen, verdict, kinds, goal, done, counts["missed"])
    }
    return ErrorKinds(counts, {kind: cost[kind] for kind in KINDS}, now, kinds, seen.images, finds, missed)


def _best(seen: Seen, which: Array) -> tuple[Array, Array]:
    """The highest overlap of every detection with a counted annotation, of pairs `which`, and that annotation; 0 and -1
    where there is none."""
    use = np.flatnonzero(which & ~seen.ignored[seen.annotation])
    use = use[np.lexsort((seen.annotation[use], -seen.overlap[use], seen.detection[use]))]
    rows, first = np.unique(seen.detection[use], return_index=True)
    most, whose = np.zeros(len(seen.scores)), np.full(len(seen.scores), -1)
    most[rows], whose[rows] = seen.overlap[use[first]], seen.annotation[use[first]]
    return most, whose


def _mended(
    seen: Seen, verdict: Judged, kinds: Array, goal: Array, done: Array, missed: Array
) -> Iterator[tuple[str, Judged]]:
    """The judgement without the errors of each kind."""
    right, counted = np.zeros(len(kinds), np.bool_), np.zeros(len(kinds), np.bool_)
    right[verdict.order], counted[verdict.order] = verdict.right, True
    near = np.flatnonzero(goal >= 0)
    near = near[~done[goal[near]]]
    near = near[np.argsort(-seen.scores[near], kind="stable")]
    first = near[np.unique(goal[near], return_index=True)[1]]
    for kind, code in _CODES.items():
        if kind == "missed":
            yield kind, Judged(verdict.order, verdict.right, verdict.starts, verdict.present - missed)
            continue
        mended = first[kinds[first] == code]
        good, kept, labels = right.copy(), counted & (kinds != code), seen.labels.copy()
        good[mended], kept[mended], labels[mended] = True, True, seen.truth[goal[mended]]
        yield kind, judged(labels, np.lexsort((-seen.scores, labels)), good, kept, verdict.present)


def _mean(verdict: Judged) -> float:
    """AP over the classes that are present; NaN without any."""
    present = np.flatnonzero(verdict.present > 0).tolist()
    each = [class_average(verdict.of(label), int(verdict.present[label]), "coco") for label in present]
    return float(np.mean(each)) if each else float("nan")
