"""Pages with polygons drawn on them, for reports."""

from __future__ import annotations

from collections.abc import Iterable

import cv2
import numpy as np

SIDE = 640  # pixels of the longer side
GREEN, RED, ORANGE, GRAY = (30, 160, 60), (215, 30, 60), (240, 140, 0), (140, 140, 140)

Colour = tuple[int, int, int]


def page(image: np.ndarray, groups: Iterable[tuple[Iterable[np.ndarray], Colour]]) -> np.ndarray:
    """uint8 [h, w, 3]: an image made smaller, with the outlines of polygons [P, 2] in the colour of their group."""
    scale = min(1.0, SIDE / max(image.shape[:2]))
    size = max(1, round(image.shape[1] * scale)), max(1, round(image.shape[0] * scale))
    canvas = cv2.resize(np.ascontiguousarray(image), size, interpolation=cv2.INTER_AREA)
    canvas = cv2.cvtColor(canvas, cv2.COLOR_GRAY2RGB) if canvas.ndim == 2 else canvas.copy()
    for polygons, colour in groups:
        for polygon in polygons:
            outline = np.rint(np.asarray(polygon) * scale).astype(np.int32)
            cv2.polylines(canvas, [outline], True, colour, 1, cv2.LINE_AA)
    return canvas
