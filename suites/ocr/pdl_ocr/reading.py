"""`Reader`: the text on a page by models that find lines, tell upright from turned ones, read, and find fields."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import UsageError, listed
from pdl.runtime.images import is_tall, opencv, sideways
from pdl.runtime.pipeline import Pipeline
from pdl.runtime.predict import Predictor, answers, pipeline_of
from pdl.runtime.session import in_turns
from pdl.runtime.steps.labels import Ctc, Top, UntilEnd
from pdl_ocr.layout import UPRIGHT, places
from pdl_ocr.rectify import Rectified, begun, laid
from pdl_ocr.steps.boxes import DbBoxes
from pdl_ocr.steps.east_boxes import EastBoxes
from pdl_ocr.steps.fields import FieldValues
from pdl_ocr.steps.lines import Lines, PageInput

ASKED = 5  # lines that are read both ways before a page is turned upside down
WORSE, BETTER = 0.01, 0.05  # by which their mean score may then be less; where nothing else told so, must be more


class Reader:
    """{"lines": [{"text", "score", "polygon", "block", "paragraph", "row"}], "width", "height"} of an image, in reading
    order with columns; polygons as `db_boxes` tells them, the rest as `pdl_ocr.layout.Place` and in pixels. A
    `pdl.runtime.predict.Predictor`.

    A page that was rectified has "rectified", too: {"homography" [3, 3], "width", "height"}, which takes pixels of the
    image to those of the page as it was read. Polygons are in pixels of the image all the same, clockwise from the
    corner where the upper left one of the line is on the page.

    detect   finds lines: answers {"boxes": [{"polygon", "score"}]}
    read     reads the image of a line: answers {"text", "score"}
    turn     tells lines upside down: answers {"label": "0" or "180", "score"}; None where only whole pages are
    extract  finds fields in the lines: answers {"fields": {name: {"text", "score", "lines"}}}, and so does the reader
    score    lines read with less are left out
    sure     a line is turned where `turn` says 180 with more than this; one that is read with less then is read as it
             was, too
    rectify  read a page from straight above and upright (`pdl_ocr.rectify`): a sheet of paper in a photograph is made
             flat, lines that lean are made straight, a page that lies on its side or on its head (which `turn` tells,
             or what a few lines say either way) is turned. Lines are found again then; other pages are read as they are
    """

    def __init__(
        self,
        detect: Predictor,
        read: Predictor,
        turn: Predictor | None = None,
        extract: Predictor | None = None,
        *,
        score: float = 0.5,
        sure: float = 0.9,
        rectify: bool = True,
    ) -> None:
        if not 0 <= score <= 1 or not 0 <= sure <= 1:
            raise UsageError(f"score={score} and sure={sure} must be from 0 to 1")
        if not isinstance(rectify, bool):
            raise UsageError(f"rectify={rectify!r} must be true or false")
        for name, part, steps in (
            ("detect", detect, (DbBoxes, EastBoxes)),
            ("read", read, (Ctc, UntilEnd)),
            ("turn", turn, (Top,)),
            ("extract", extract, (FieldValues,)),
        ):
            if part is not None and all(pipeline_of(part).answering(step) is None for step in steps):
                names = " or ".join(repr(step.name) for step in steps)
                raise UsageError(f"Reader: {name} does not answer as it should: its pipeline has no step {names}")
        if turn is not None and not {"0", "180"} <= set(_classes(turn)):
            have = listed(_classes(turn), 5) or "none"
            raise UsageError(f"Reader: turn does not answer as it should: its classes are {have}, expected 0 and 180")
        in_turns(detect, read, turn, extract)
        self.detect, self.read, self.turn, self.score, self.sure = detect, read, turn, score, sure
        self.extract, self.rectify = extract, rectify
        self.pipeline = Pipeline({"image": [PageInput("rgb")]}, {"lines": [Lines()]})

    def __call__(self, item: Any) -> dict[str, Any]:
        """The text on one image: an array uint8 [H, W] or [H, W, 3] (RGB), a path, or the bytes of a file."""
        return self.batch([item])[0]

    def batch(self, items: Iterable[Any]) -> list[dict[str, Any]]:
        """The answers for several images, in order."""
        return [answer.plain() for answer in self.pipeline.answers(items, self.run)]

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Any]:
        """What `Lines` takes, of each of several images uint8 [N, H, W, 3]."""
        return {"lines": [self._page(image) for image in inputs["image"]]}

    def _page(self, image: Array) -> dict[str, Any]:
        image = np.ascontiguousarray(image)  # once, and not for every line that is cut out
        there = corners = self._corners(image)
        page, parts, over = self._rectified(image, corners) if self.rectify and len(corners) else (None, None, None)
        if page is not None:
            corners = self._corners(page.image(image))
            there = page.back(corners)
        if parts is None:
            parts = [straightened(image, each) for each in there]  # out of the image itself: sharper
        found = self.lines(parts, over)
        kept = [i for i, line in enumerate(found) if line["text"] and line["score"] >= self.score]
        lines = []
        for at in places([corners[i] for i in kept]):
            i = kept[at.line]
            polygon = [[round(float(x), 1), round(float(y), 1)] for x, y in there[i]]
            lines.append({**found[i], "polygon": polygon, "block": at.block, "paragraph": at.paragraph, "row": at.row})
        fields = {} if self.extract is None else {"fields": self._fields(lines, page)}
        return {"lines": lines, **fields, **({} if page is None else {"rectified": page.facts})}

    def _fields(self, lines: Sequence[Mapping[str, Any]], page: Rectified | None) -> Any:
        """What the lines say of the fields; they are shown as they lie on the page."""
        if self.extract is None or not lines:
            return {}
        corners = np.array([line["polygon"] for line in lines])
        flat = corners if page is None else page.forth(corners)
        given = [{"text": line["text"], "polygon": each} for line, each in zip(lines, flat, strict=True)]
        return answers(self.extract, [{"lines": given}])[0]["fields"]

    def _corners(self, image: Array) -> Array:
        """The corners float64 [N, 4, 2] of the lines on an image."""
        boxes = answers(self.detect, [image])[0]["boxes"]
        return np.array([box["polygon"] for box in boxes], np.float64).reshape(-1, 4, 2)

    def _rectified(self, image: Array, corners: Array) -> tuple[Rectified | None, list[Array] | None, set[int] | None]:
        """How the page with these lines lies on its image; None where that is the page as it is, and then the images of
        the lines, and which of them are upside down: `turn` has been asked already."""
        size, (paper, angle) = image.shape[:2], laid(image, corners)
        page = Rectified.of(size, paper, angle)
        if page is not None:
            corners = begun(corners, page.forth(corners), 0.0)
        parts = [straightened(image, each) for each in corners]
        sides = self._sides(parts)
        over = {i for i, side in enumerate(sides) if side > self.sure}
        if self._is_over(parts, sides, over):
            return Rectified.of(size, paper, angle + np.pi), None, None
        return (None, parts, over) if page is None else (page, None, None)

    def _is_over(self, parts: Sequence[Array], sides: Sequence[float], over: set[int]) -> bool:
        """Whether a page with these lines is upside down: most lines that `turn` is sure of are, and the longest of
        them read no worse when they are turned. Without `turn` the longest lines of all have to read better then."""
        if self.turn is not None and len(over) <= sum(side < -self.sure for side in sides):
            return False
        asked = range(len(parts)) if self.turn is None else over
        longest = sorted(asked, key=lambda i: -parts[i].shape[1] / parts[i].shape[0])[:ASKED]
        read = answers(self.read, [x for i in longest for x in (parts[i], _turned(parts[i]))])
        better = np.mean([there["score"] - here["score"] for here, there in zip(read[::2], read[1::2], strict=True)])
        return bool(better > (BETTER if self.turn is None else -WORSE))

    def lines(self, images: Sequence[Array], over: set[int] | None = None) -> list[dict[str, Any]]:
        """{"text", "score"} of images of single lines, turned upright first. Whether a line is upside down is told of a
        small image of it, now and then wrongly: one that was turned and reads badly is read as it was, too, and the
        better text is taken.

        over   the numbers of those that are upside down, where that is known
        """
        if not images:
            return []
        if over is None:
            over = {i for i, side in enumerate(self._sides(images)) if side > self.sure}
        found = answers(self.read, [_turned(x) if i in over else x for i, x in enumerate(images)])
        doubtful = [i for i in sorted(over) if found[i]["score"] < self.sure]
        for i, other in zip(doubtful, answers(self.read, [images[i] for i in doubtful]), strict=True):
            found[i] = max(found[i], other, key=lambda each: float(each["score"]))
        return found

    def _sides(self, images: Sequence[Array]) -> list[float]:
        """How sure `turn` is of each line: the score of 180, or less than 0 that of 0."""
        found = [] if self.turn is None else answers(self.turn, images)
        return [each["score"] * (1 if each["label"] == "180" else -1) for each in found]


def _classes(part: Predictor) -> Sequence[str]:
    """The names of the classes that a part answers with."""
    step = pipeline_of(part).answering(Top)
    return () if step is None else step.labels


def _turned(image: Array) -> Array:
    """An image turned by 180 degrees."""
    return np.ascontiguousarray(image[::-1, ::-1])


def straightened(image: Array, polygon: Sequence[Sequence[float]] | Array) -> Array:
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
    return sideways(part)[0] if is_tall(part, UPRIGHT) else part
