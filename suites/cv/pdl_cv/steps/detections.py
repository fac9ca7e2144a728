"""The step `detections`: the objects that a detector found, in pixels of the image that it was given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.runtime.frame import Frame
from pdl.runtime.steps import Mark, Sample
from pdl.runtime.steps.arguments import count, number, text
from pdl.runtime.steps.outputs import Labelled, Objects, Ranking, Thresholded, Writer
from pdl_cv.steps.keypoints import shifted
from pdl_cv.steps.masks import decode, encode, outlines, pasted

JOINED = 0.6  # overlap of the smaller of two boxes from which on tiles show one object twice

Found = dict[str, Any]
"""One object: {"label", "class", "score", "box": [x1, y1, x2, y2]}, of nets that find them with its "mask"."""


class Detections(Labelled, Ranking, Thresholded):
    """{"detections": [{"label", "class", "score", "box": [x1, y1, x2, y2]}], "size": [height, width]}, best first, of
    boxes [K, 4] in pixels of the net's input. Boxes are in pixels of the original image, which has that size; pixel
    (0, 0) covers the square 0..1.

    score   objects with less are left out
    k       so many at most
    scores, labels  the outputs [K] with scores and class numbers, -1 where there is no object
    masks   the output [K, m, m] with probabilities over each box; each object then has a "mask" as COCO writes them:
            {"size": [height, width], "counts": "..."} (compressed run lengths, column by column)
    """

    name = "detections"
    unordered = True

    def __init__(
        self, score: float = 0.3, k: int = 100, scores: str = "scores", labels: str = "labels", masks: str = ""
    ) -> None:
        self.score, self.k = number("score", score, 0, 1), count("k", k)
        self.scores, self.classes, self.masks = text("scores", scores), text("labels", labels), text("masks", masks)
        self.beside = (self.scores, self.classes, *([self.masks] if self.masks else []))

    def __call__(self, value: Any, sample: Sample) -> Any:
        frame = sample.framed(self.name)
        scores, classes, *masks = (sample.outputs[name] for name in self.beside)
        return self.listed(value, scores, classes, frame, *masks)

    def listed(self, value: Array, scores: Array, classes: Array, frame: Frame, masks: Array | None = None) -> Any:
        """The answer, of boxes [K, 4] in pixels of the net's input, best first, which lies so in the image."""
        boxes = frame.back(value.reshape(-1, 2, 2)).reshape(-1, 4)
        extent = boxes[:, 2:] - boxes[:, :2]
        kept = np.flatnonzero((classes >= 0) & (scores >= self.score) & (extent > 0).all(axis=1))[: self.k]
        columns = classes[kept].tolist(), scores[kept].tolist(), np.round(boxes[kept], 2).tolist()
        found: list[Found] = [
            {"label": self.label(label), "class": label, "score": score, "box": box}
            for label, score, box in zip(*columns, strict=True)
        ]
        if masks is not None:
            for each, i in zip(found, kept, strict=True):
                each["mask"] = encode(pasted(masks[i], self._unclipped(value[i], frame), frame))
        return {"detections": found, "size": [frame.height, frame.width]}

    def _unclipped(self, box: Array, frame: Frame) -> Array:
        """A box in the original image with what lies beyond its edges."""
        corners: Array = box.reshape(2, 2).astype(np.float64) * frame.scale + frame.offset
        return corners.reshape(4)

    def joined(self, answers: Sequence[Any], places: Sequence[tuple[int, int]], size: tuple[int, int]) -> Any:
        """All objects of the tiles, best first; of two of one class the better one stays where their overlap is more
        than `JOINED` of the smaller one."""
        found = [
            moved(each, place, size)
            for answer, place in zip(answers, places, strict=True)
            for each in answer["detections"]
        ]
        kept: list[Found] = []
        for each in sorted(found, key=lambda each: -each["score"]):
            if not any(each["class"] == k["class"] and _share(each["box"], k["box"]) > JOINED for k in kept):
                kept.append(each)
        return {"detections": kept[: self.k], "size": list(size)}

    @property
    def objects(self) -> Objects | None:
        return None if self.masks else Objects(self.score, self.k, self.scores, self.classes)

    @property
    def writers(self) -> Sequence[Writer]:
        return [Writer("--coco", "write the objects as COCO annotations with scores, to a file *.json", self._write)]

    def _write(self, path: Path, predictions: Iterable[Any]) -> tuple[int, int]:
        from pdl_cv.steps.coco import write_predictions

        return write_predictions(path, predictions, self.labels)

    # -- for people ----------------------------------------------------------------------------------------------------
    def rows(self, answer: Any) -> list[dict[str, Any]]:
        corners = ("x1", "y1", "x2", "y2")
        return [
            {"label": each["label"], "score": each["score"], **dict(zip(corners, each["box"], strict=True))}
            for each in answer["detections"]
        ]

    def caption(self, answer: Any) -> str:
        counts = Counter(each["label"] for each in answer["detections"])
        return ", ".join(f"{n} {label}" for label, n in counts.items()) or "nothing found"

    def marks(self, answer: Any) -> Sequence[Mark]:
        return [mark for each in answer["detections"] for mark in marked(each)]

    # -- comparing -----------------------------------------------------------------------------------------------------
    def agrees(self, ours: Any, theirs: Any, tolerance: float, sample: Sample) -> bool:
        """Each object has a counterpart: of the same class, with nearly the same score and box. One may lack it whose
        score is nearly the least that counts, or nearly the last that is listed. So may one in ten whose score is
        nearly that of another object of its class that it overlaps: either of these two suppresses the other."""
        assert sample.frame is not None
        near = tolerance * max(1.0, *sample.frame.scale) + 0.02
        level = tolerance / max([1.0, *(float(np.abs(boxes).max()) for boxes in _boxes(sample))])  # of scores
        a, b = ours["detections"], theirs["detections"]
        tied = 0
        for mine, others in ((a, b), (b, a)):
            last = others[-1]["score"] if len(others) == self.k else 0.0
            for each in _alone(mine, others, near, level):
                if each["score"] - max(self.score, last) > level:
                    rivals = (other for other in (*mine, *others) if other is not each and _overlap(other, each))
                    if not any(abs(other["score"] - each["score"]) <= level for other in rivals):
                        return False
                    tied += 1
        return tied <= 2 * max(1, len(a) // 10)


def marked(one: Found) -> Iterator[Mark]:
    """What an object marks on an image: the outlines of its mask, where it has one, and its box."""
    for outline in outlines(one["mask"]) if "mask" in one else ():
        yield Mark(outline, colour=one["class"], filled=True)
    x1, y1, x2, y2 = one["box"]
    label = f"{one['label']} {one['score']:.2f}"
    yield Mark([[x1, y1], [x2, y1], [x2, y2], [x1, y2]], label=label, colour=one["class"])


def _alone(mine: Sequence[Found], others: Sequence[Found], near: float, tolerance: float) -> Iterator[Found]:
    """Objects without a counterpart among the others."""
    boxes = np.array([each["box"] for each in others], np.float64).reshape(-1, 4)
    facts = np.array([(each["class"], each["score"]) for each in others], np.float64).reshape(-1, 2)
    for each in mine:
        same = (facts[:, 0] == each["class"]) & (np.abs(facts[:, 1] - each["score"]) <= tolerance)
        if not (same & (np.abs(boxes - each["box"]).max(axis=1, initial=0) <= near)).any():
            yield each


def moved(one: Found, place: tuple[int, int], size: tuple[int, int]) -> Found:
    """An object of a tile, in the image of `size` (height, width) where the tile's corner is at `place` (x, y)."""
    (x, y), (x1, y1, x2, y2) = place, one["box"]
    made = {**one, "box": [round(v, 2) for v in (x1 + x, y1 + y, x2 + x, y2 + y)]}
    if "mask" in one:
        inside = decode(one["mask"])
        whole = np.zeros(size, np.uint8)
        whole[y : y + inside.shape[0], x : x + inside.shape[1]] = inside
        made["mask"] = encode(whole)
    if "keypoints" in one:
        made["keypoints"] = shifted(one["keypoints"], x, y)
    return made


def _share(a: Sequence[float], b: Sequence[float]) -> float:
    """The area that two boxes share, as a part of the smaller one's."""
    width, height = min(a[2], b[2]) - max(a[0], b[0]), min(a[3], b[3]) - max(a[1], b[1])
    if width <= 0 or height <= 0:
        return 0.0
    return width * height / min((box[2] - box[0]) * (box[3] - box[1]) for box in (a, b))


def _overlap(a: Found, b: Found) -> bool:
    return bool(a["class"] == b["class"]) and _share(a["box"], b["box"]) > 0


def _boxes(sample: Sample) -> Iterator[Array]:
    """The outputs of a sample that are boxes."""
    return (each for each in sample.outputs.values() if each.ndim == 2 and each.shape[1] == 4 and each.size)
