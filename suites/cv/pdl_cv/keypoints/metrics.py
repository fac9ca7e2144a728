"""Share of keypoints in place, and COCO's average precision of objects that are cut out one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import numpy as np

from pdl.errors import ShapeError, UsageError
from pdl.hints import Range
from pdl.train.metrics import Metric
from pdl_cv.detection.average_precision import Accumulated, Judged
from pdl_cv.detection.matching import Growing, Seen
from pdl_cv.detection.metrics import KeypointAP, Objects

Array = np.ndarray[Any, Any]


class PCK(Metric):
    """Percentage of correct keypoints: the share of annotated points whose prediction is no farther than `threshold`
    times a length of the person (Yang and Ramanan, TPAMI 2013; Johnson and Everingham's LSP is measured at 0.2 of the
    torso).

    names      of the points, in order
    threshold  of distances, as a share of the length
    reference  two points, by name or number, whose distance is the length, such as left_shoulder and right_hip (the
               torso) or neck and head_top (PCKh); or "box": the longer side of the box around the annotated points

    A person of whom one of the two points is not annotated, or whose length is 0, is left out: `left_out` counts them.
    """

    def __init__(
        self,
        names: Sequence[str],
        *,
        threshold: Annotated[float, Range(above=0)] = 0.2,
        reference: tuple[str | int, str | int] | Literal["box"] = ("left_shoulder", "right_hip"),
    ) -> None:
        self.names, self.threshold = list(names), threshold
        self.ends = None if isinstance(reference, str) else [self._place(each) for each in reference]
        self.right, self.seen = np.zeros(len(self.names), np.int64), np.zeros(len(self.names), np.int64)
        self.left_out = 0

    def _place(self, point: str | int) -> int:
        if point in self.names:
            return self.names.index(str(point))
        if isinstance(point, int) and 0 <= point < len(self.names):
            return point
        raise UsageError(f"PCK: reference {point!r} is no keypoint; there are {', '.join(self.names)}")

    def update(self, predictions: Array, targets: Array) -> None:
        """predictions [N, P, 2 or more] (x, y, ...) and targets [N, P, 3] (x, y, visibility: 0 is not annotated), in
        pixels; P is the number of names."""
        if predictions.shape[:2] != targets.shape[:2] or targets.shape[1:] != (len(self.names), 3):
            raise ShapeError(
                f"PCK: predictions {predictions.shape}, targets {targets.shape}; expected [N, {len(self.names)}, 2] "
                f"and [N, {len(self.names)}, 3]"
            )
        places, known = targets[..., :2].astype(np.float64), targets[..., 2] > 0
        length = self._length(places, known)
        good = length > 0  # not NaN
        self.left_out += int((~good).sum())
        distance = np.linalg.norm(predictions[good, :, :2] - places[good], axis=2)
        inside = distance <= self.threshold * length[good, None]
        self.right += (inside & known[good]).sum(axis=0)
        self.seen += known[good].sum(axis=0)

    def _length(self, places: Array, known: Array) -> Array:
        """float64 [N]; NaN where it is not known."""
        if self.ends is None:
            some: Array = np.any(known, axis=1)
            low = np.where(known[..., None], places, np.inf).min(axis=1)
            high = np.where(known[..., None], places, -np.inf).max(axis=1)
            return np.where(some, np.where(some[:, None], high - low, 0.0).max(axis=1), np.nan)
        a, b = self.ends
        return np.where(known[:, a] & known[:, b], np.linalg.norm(places[:, a] - places[:, b], axis=1), np.nan)

    def compute(self) -> float:
        """The share of all points; NaN without any."""
        return float(self.right.sum() / self.seen.sum()) if self.seen.any() else float("nan")

    def table(self) -> dict[str, float]:
        """The share of each point, by name; NaN where it was never annotated."""
        share = np.divide(self.right, self.seen, out=np.full(len(self.names), np.nan), where=self.seen > 0)
        return dict(zip(self.names, share.tolist(), strict=True))


class CutOutAP(KeypointAP):
    """COCO's average precision by object keypoint similarity, of objects whose boxes are known: each annotated one is
    one detection of its image, whose score is the mean of its points' (the protocol of top-down nets with annotated
    boxes). Equal to pycocotools.

    sigmas  as those of `KeypointAP`: by default COCO's of 17 points, 0.067 for each of any other number
    """

    def __init__(self, *, sigmas: Sequence[float] | None = None) -> None:
        super().__init__(["object"], sigmas=sigmas)
        self.images: dict[int, list[tuple[Array, Mapping[str, Any]]]] = {}

    def update(self, predictions: Array, originals: Sequence[Mapping[str, Any]]) -> None:  # type: ignore[override]
        """predictions [N, P, 3] (x, y, score) of objects in any order, and each as annotated: "keypoints" [P, 3], "box"
        [4], "area", and "image", the number of its image."""
        for points, known in zip(predictions, originals, strict=True):
            self.images.setdefault(int(known["image"]), []).append((points, known))
        self._done = None

    @property
    def _results(self) -> tuple[Seen, Accumulated | None, Judged]:
        if self._done is None:  # objects of an image may come in several batches
            self.samples, self.boxes, self._growing = [], [], Growing()
            pairs = [_of_image(objects) for objects in self.images.values()]
            super().update([found for found, _ in pairs], [known for _, known in pairs])
        return super()._results


def _of_image(objects: Sequence[tuple[Array, Mapping[str, Any]]]) -> tuple[Objects, Objects]:
    """What was found in an image, and what is annotated."""
    points = np.stack([found for found, _ in objects])
    labels = np.zeros(len(objects), np.int64)
    known = {name: np.stack([each[key] for _, each in objects])
             for name, key in (("keypoints", "keypoints"), ("boxes", "box"), ("area", "area"))}  # fmt: skip
    return {"labels": labels, "scores": points[..., 2].mean(axis=1), "keypoints": points}, {"labels": labels, **known}


class PointShares(Metric):
    """The share in place of each point, by name; see `PCK`, whose numbers it shows once that has seen them."""

    def __init__(self, measured: PCK) -> None:
        self.measured = measured

    def update(self, predictions: Array, targets: Array) -> None:
        """Nothing: `measured` is updated itself."""

    def compute(self) -> Any:
        return self.measured.table()


@dataclass(frozen=True, order=True)
class Miss:
    """An object whose points are far from where they are: the mean distance in lengths of the longer side of its
    points' span, the number of the object, and its points as found, float64 [P, 3] in its image.
    """

    distance: float
    index: int
    found: Array = field(compare=False)


class Misses(Metric):
    """The `keep` objects with the largest mean distance."""

    def __init__(self, keep: int) -> None:
        self.keep = keep
        self.worst: list[Miss] = []

    def update(self, predictions: Array, targets: Array, index: Array) -> None:
        """predictions [N, P, 3], targets [N, P, 3], index [N]."""
        for found, truth, i in zip(predictions, targets, index, strict=True):
            known = truth[:, 2] > 0
            places = truth[known, :2].astype(np.float64)
            length = float(np.ptp(places, axis=0).max()) if len(places) > 1 else 0.0
            if length > 0:
                distance = float(np.linalg.norm(found[known, :2] - places, axis=1).mean() / length)
                self.worst.append(Miss(distance, int(i), np.array(found)))
        self.worst = sorted(self.worst, key=lambda miss: (-miss.distance, miss.index))[: self.keep]

    def compute(self) -> Any:
        return self.worst
