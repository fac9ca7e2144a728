"""The step `inspected`: objects that a detector found, each with what a second model says of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pdl.runtime.steps import Mark, Sample
from pdl_cv.steps.detections import Detections, marked
from pdl_cv.steps.keypoints import posed


class Inspected(Detections):
    """{"detections": [...], "size": [height, width]} as the step `detections` gives them, of what `pdl_cv.Cascade`
    found: with the label of a classifier, or with "keypoints" in pixels of the image.

    skeleton  pairs of points that lines join in drawings
    seen      points with less are not drawn
    """

    name = "inspected"

    def __init__(self, skeleton: Sequence[tuple[int, int]] = (), seen: float = 0.2) -> None:
        super().__init__(score=0.0)
        self.skeleton, self.seen = skeleton, seen
        self.beside = ()

    def __call__(self, value: Any, sample: Sample) -> Any:
        kept = [each for each in value["detections"] if each["score"] >= self.score]
        return {**value, "detections": kept[: self.k]}

    def marks(self, answer: Any) -> Sequence[Mark]:
        found: list[Mark] = []
        for each in answer["detections"]:
            found += marked(each)
            found += posed(each.get("keypoints", ()), self.skeleton, self.seen, colour=each["class"])
        return found

    def agrees(self, ours: Any, theirs: Any, tolerance: float, sample: Sample) -> bool:
        """Whether both are the same: each of the two models is compared by itself where it is exported."""
        return bool(ours == theirs)
