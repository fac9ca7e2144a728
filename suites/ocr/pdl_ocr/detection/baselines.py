"""What finds lines of text without learning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import cv2
import numpy as np

from pdl.data import Dataset
from pdl.data.transforms import ResizeWithin
from pdl.data.transforms.pixels import resize
from pdl_ocr.data.polygons import split_points

if TYPE_CHECKING:
    from pdl_ocr.detection.task import TextDetection

LIMIT = 960  # pixels of the longer side at which pages are looked at
GAP = 3.0  # letters so many times their median height apart are one line
LEAST, MOST = 6, 100  # pixels of letters' heights


def baselines(task: TextDetection, dataset: Dataset) -> dict[str, dict[str, float]]:
    """Ink by Otsu's threshold (IEEE Trans. SMC 1979) of gray pages, or of their negatives where most is dark; parts as
    high as letters are joined along rows, and the rectangle around each row is a line."""
    measured = task.metrics()
    for index in range(len(dataset)):
        sample = dataset[index]
        polygons = split_points(np.asarray(sample["points"], np.float64), sample["corners"])
        original = {"polygons": polygons, "ignored": sample["ignored"], "index": index}
        for metric in measured.values():
            metric.update([{"boxes": joined_ink(np.asarray(sample["image"]))}], [original])
    return {"joined ink": {name: float(each.compute()) for name, each in measured.items() if name != "pages"}}


def joined_ink(image: np.ndarray) -> list[dict[str, Any]]:
    """The lines of an image uint8 [H, W, C]: [{"polygon", "score"}] in its pixels."""
    height, width = ResizeWithin(LIMIT, 1).size(*image.shape[:2])
    gray = resize(image, (height, width), "area").mean(axis=2).astype(np.uint8)
    _, ink = cv2.threshold(gray, 0, 255, cv2.THRESH_BINARY_INV + cv2.THRESH_OTSU)
    if ink.mean() > 127:
        ink = 255 - ink
    _, labels, stats, _ = cv2.connectedComponentsWithStats(ink)
    heights = stats[1:, cv2.CC_STAT_HEIGHT]
    letters = (heights >= LEAST) & (heights <= MOST)
    if not letters.any():
        return []
    median = int(np.median(heights[letters]))
    kept = np.concatenate([[False], letters])[labels].astype(np.uint8)
    row = cv2.morphologyEx(kept, cv2.MORPH_CLOSE, np.ones((1, max(3, int(GAP * median))), np.uint8))
    outlines, _ = cv2.findContours(row, cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    scale = np.array([image.shape[1] / width, image.shape[0] / height])
    found = []
    for outline in outlines:
        x, y, w, h = cv2.boundingRect(outline)
        corners = np.array([[x, y], [x + w, y], [x + w, y + h], [x, y + h]]) * scale
        found.append({"polygon": corners.tolist(), "score": 1.0})
    return found
