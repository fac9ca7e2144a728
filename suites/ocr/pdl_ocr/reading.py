"""`Reader`: the text on a page by three models, which find lines, tell upright from turned ones, and read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import UsageError
from pdl.runtime.images import opencv
from pdl.runtime.pipeline import Pipeline
from pdl.runtime.predict import Predictor, answers, pipeline_of
from pdl.runtime.steps.labels import Ctc, Top, UntilEnd
from pdl_ocr.layout import UPRIGHT, places
from pdl_ocr.steps.boxes import DbBoxes
from pdl_ocr.steps.lines import Lines, PageInput


class Reader:
    """{"lines": [{"text", "score", "polygon", "block", "paragraph", "row"}], "width", "height"} of an image, in reading
    order with columns; polygons as `db_boxes` tells them, the rest as `pdl_ocr.layout.Place` and in pixels. A
    `pdl.runtime.predict.Predictor`.

    detect   finds lines: answers {"boxes": [{"polygon", "score"}]}
    read     reads the image of a line: answers {"text", "score"}
    turn     tells lines upside down: answers {"label": "0" or "180", "score"}; None where all lines are upright
    score    lines read with less are left out
    sure     a line is turned where `turn` says 180 with more than this; one that is read with less then is read as it
             was, too
    """

    def __init__(
        self,
        detect: Predictor,
        read: Predictor,
        turn: Predictor | None = None,
        *,
        score: float = 0.5,
        sure: float = 0.9,
    ) -> None:
        if not 0 <= score <= 1 or not 0 <= sure <= 1:
            raise UsageError(f"score={score} and sure={sure} must be from 0 to 1")
        for name, part, steps in (
            ("detect", detect, (DbBoxes,)), ("read", read, (Ctc, UntilEnd)), ("turn", turn, (Top,))
        ):  # fmt: skip
            if part is not None and all(pipeline_of(part).answering(step) is None for step in steps):
                names = " or ".join(repr(step.name) for step in steps)
                raise UsageError(f"Reader: {name} does not answer as it should: its pipeline has no step {names}")
        self.detect, self.read, self.turn, self.score, self.sure = detect, read, turn, score, sure
        self.pipeline = Pipeline({"image": [PageInput("rgb")]}, {"lines": [Lines()]})

    def __call__(self, item: Any) -> dict[str, Any]:
        """The text on one image: an array uint8 [H, W] or [H, W, 3] (RGB), a path, or the bytes of a file."""
        return self.batch([item])[0]

    def batch(self, items: Iterable[Any]) -> list[dict[str, Any]]:
        """The answers for several images, in order."""
        return [answer.plain() for answer in self.pipeline.answers(items, self.run)]

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Any]:
        """The lines of each of several images uint8 [N, H, W, 3]."""
        return {"lines": [self._page(image) for image in inputs["image"]]}

    def _page(self, image: Array) -> list[dict[str, Any]]:
        boxes = answers(self.detect, [image])[0]["boxes"]
        found = self.lines([straightened(image, box["polygon"]) for box in boxes])
        lines = [{**line, "polygon": box["polygon"]} for line, box in zip(found, boxes, strict=True)]
        kept = [line for line in lines if line["text"] and line["score"] >= self.score]
        order = places([line["polygon"] for line in kept])
        return [{**kept[at.line], "block": at.block, "paragraph": at.paragraph, "row": at.row} for at in order]

    def lines(self, images: Sequence[Array]) -> list[dict[str, Any]]:
        """{"text", "score"} of images of single lines, turned upright first. Whether a line is upside down is told of a
        small image of it, now and then wrongly: one that was turned and reads badly is read as it was, too, and the
        better text is taken."""
        if not images:
            return []
        over = self._upside_down(images)
        turned = [np.ascontiguousarray(x[::-1, ::-1]) if i in over else x for i, x in enumerate(images)]
        found = answers(self.read, turned)
        doubtful = [i for i in sorted(over) if found[i]["score"] < self.sure]
        for i, other in zip(doubtful, answers(self.read, [images[i] for i in doubtful]), strict=True):
            found[i] = max(found[i], other, key=lambda each: float(each["score"]))
        return found

    def _upside_down(self, images: Sequence[Array]) -> set[int]:
        """The numbers of the lines that `turn` says are upside down."""
        found = [] if self.turn is None else answers(self.turn, images)
        return {i for i, each in enumerate(found) if each["label"] == "180" and each["score"] > self.sure}


def straightened(image: Array, polygon: Sequence[Sequence[float]]) -> Array:
    """The part of `image` in a quadrilateral (clockwise from its upper left corner), as a rectangle with the lengths of
    its longer sides; one that is `UPRIGHT` times as high as wide is turned by 90 degrees to the left."""
    cv2 = opencv("Reader: lines are straightened")
    corners = np.array(polygon, np.float32)
    edges = np.hypot(*(np.roll(corners, -1, axis=0) - corners).T)
    width, height = max(1, round(float(max(edges[0], edges[2])))), max(1, round(float(max(edges[1], edges[3]))))
    target = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
    move = cv2.getPerspectiveTransform(corners, target)
    part: Array = cv2.warpPerspective(
        image, move, (width, height), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE
    )
    return np.ascontiguousarray(np.rot90(part)) if height >= UPRIGHT * width else part
