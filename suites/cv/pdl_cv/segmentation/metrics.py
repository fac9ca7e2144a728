"""How well pixels are classified: counts over all pixels of a split, and how near edges are to where they should be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from pdl.dtype import Array
from pdl.hints import Range
from pdl.train.metrics import Metric, Several
from pdl_cv.data.index_maps import IGNORED


class Overlap(Several):
    """Counts of pixels by true and found class, over all images; pixels of 255 in the truth count nothing.

    IoU of a class is TP / (TP + FP + FN), Dice 2 TP / (2 TP + FP + FN); means are over classes that are present or
    found. mIoU, accuracy (of all pixels), mean_accuracy (recall, mean over classes), dice.

    background  the class that the mean of Dice leaves out
    regions     unions of classes by name, whose "IoU_NAME" and "dice_NAME" are given, too
    """

    def __init__(
        self,
        classes: Sequence[str],
        *,
        background: int | None = None,
        regions: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        self.classes, self.background, self.regions = list(classes), background, dict(regions or {})
        self.counts = np.zeros((len(self.classes), len(self.classes)), np.int64)

    def update(self, found: Sequence[Array], truth: Sequence[Array]) -> None:
        """Masks uint8 [H, W] of the same images."""
        n = len(self.classes)
        for ours, known in zip(found, truth, strict=True):
            kept = known != IGNORED
            flat = known[kept].astype(np.int64) * n + ours[kept]
            self.counts += np.bincount(flat, minlength=n * n).reshape(n, n)

    def compute(self) -> float:
        return self.numbers()["mIoU"]

    def numbers(self) -> dict[str, float]:
        """All of them by name."""
        hits, present, predicted = np.diag(self.counts), self.counts.sum(axis=1), self.counts.sum(axis=0)
        iou, dice = _shares(hits, present + predicted - hits), _shares(2 * hits, present + predicted)
        rows = [k for k in range(len(self.classes)) if k != self.background]
        found = {
            "mIoU": _mean(iou),
            "accuracy": float(hits.sum() / present.sum()) if present.any() else float("nan"),
            "mean_accuracy": _mean(_shares(hits, present)),
            "dice": _mean(dice[rows]),
        }
        for name, members in self.regions.items():
            inside = np.isin(np.arange(len(self.classes)), members)
            both = self.counts[np.ix_(inside, inside)].sum()
            size = present[inside].sum() + predicted[inside].sum()
            found[f"IoU_{name}"] = float(_shares(both, size - both))
            found[f"dice_{name}"] = float(_shares(2 * both, size))
        return found

    def table(self) -> list[ClassResult]:
        """What is known of each class."""
        hits, present, predicted = np.diag(self.counts), self.counts.sum(axis=1), self.counts.sum(axis=0)
        columns = (
            _shares(hits, present + predicted - hits), _shares(2 * hits, present + predicted),
            _shares(hits, predicted), _shares(hits, present), present / max(1, present.sum()),
        )  # fmt: skip
        rows = zip(self.classes, zip(*columns, strict=True), strict=True)
        return [ClassResult(name, *map(float, row)) for name, row in rows]


@dataclass(frozen=True)
class ClassResult:
    """Numbers of one class; `share` of the true pixels is of it."""

    name: str
    iou: float
    dice: float
    precision: float
    recall: float
    share: float


class BoundaryF(Metric):
    """F1 of the edges of classes: the share of edge pixels found that are within a distance of a true one, and of true
    ones within that of a found one; the mean over the classes of each image, and over images (Csurka et al., BMVC
    2013).

    distance  in shares of the image's diagonal
    """

    def __init__(self, *, distance: Annotated[float, Range(above=0, below=1)] = 0.0075) -> None:
        self.distance, self.total, self.images = distance, 0.0, 0

    def update(self, found: Sequence[Array], truth: Sequence[Array]) -> None:
        """Masks uint8 [H, W] of the same images."""
        import cv2

        for ours, known in zip(found, truth, strict=True):
            reach = max(1, round(self.distance * float(np.hypot(*known.shape))))
            near = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * reach + 1, 2 * reach + 1))
            counts = (known != IGNORED).astype(np.uint8)
            scores = []
            for number in np.union1d(np.unique(known[known != IGNORED]), np.unique(ours[known != IGNORED])).tolist():
                a, b = (_edge((mask == number).astype(np.uint8)) & counts for mask in (ours, known))
                hits = int((a & cv2.dilate(b, near)).sum()), int((b & cv2.dilate(a, near)).sum())
                sizes = int(a.sum()), int(b.sum())
                if not any(sizes):
                    continue
                precision, recall = (h / s if s else 0.0 for h, s in zip(hits, sizes, strict=True))
                scores.append(2 * precision * recall / (precision + recall) if precision + recall else 0.0)
            if scores:
                self.total += float(np.mean(scores))
                self.images += 1

    def compute(self) -> float:
        return self.total / self.images if self.images else float("nan")


@dataclass(frozen=True, order=True)
class Weak:
    """An image by how little of it is right, and what was found there."""

    accuracy: float
    index: int


class Weakest(Metric):
    """The images with the least share of right pixels, with their masks."""

    def __init__(self, keep: int) -> None:
        self.keep = keep
        self.found: list[tuple[Weak, Array]] = []

    def update(self, found: Sequence[Array], truth: Sequence[Array], index: Any) -> None:
        """Masks uint8 [H, W], and the numbers of the images."""
        for ours, known, number in zip(found, truth, index, strict=True):
            kept = known != IGNORED
            share = float((ours == known)[kept].mean()) if kept.any() else 1.0
            self.found.append((Weak(share, int(number)), ours))
        self.found = sorted(self.found, key=lambda each: each[0])[: self.keep]

    def compute(self) -> Any:
        return self.found


def _edge(mask: Array) -> Array:
    """The pixels of a mask of 0 and 1 that have a neighbour outside of it; the image's border is no edge."""
    import cv2

    inner = cv2.erode(mask, np.ones((3, 3), np.uint8), borderType=cv2.BORDER_CONSTANT, borderValue=1)
    return np.asarray(mask & (1 - inner))


def _shares(part: Any, whole: Any) -> Array:
    part, whole = np.asarray(part, np.float64), np.asarray(whole, np.float64)
    return np.divide(part, whole, out=np.full(part.shape, np.nan), where=whole > 0)


def _mean(values: Array) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else float("nan")
