"""The step `centerface`: faces of the maps that CenterFace makes of an image.

Y. Xu, W. Yan, G. Yang, J. Luo, T. Li, J. He: CenterFace: joint face detection and alignment using face as point,
Scientific Programming 2020, arXiv 1911.03599. Cell (i, j) of the maps stands for a face whose middle is at
stride * (j + offset_x + 1/2, i + offset_y + 1/2) and whose sides are stride * exp(size).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.runtime.steps import Sample
from pdl.runtime.steps.arguments import count, number, text
from pdl_cv.steps.detections import Detections

CANDIDATES = 1000  # cells with the best scores that are looked at


class CenterFace(Detections):
    """{"detections": [...], "size"} as the step `detections` answers, of a map of scores [1, H, W].

    score   faces with less are left out
    k       so many at most
    sizes, offsets  the outputs [2, H, W] with sizes and offsets, of y before x
    stride  pixels of the net's input for a cell
    iou     of two boxes that overlap by more, as intersection over union, the better one stays
    """

    name = "centerface"

    def __init__(
        self,
        score: float = 0.4,
        k: int = 100,
        sizes: str = "sizes",
        offsets: str = "offsets",
        stride: float = 4,
        iou: float = 0.3,
    ) -> None:
        self.score, self.k = number("score", score, 0, 1), count("k", k)
        self.stride, self.iou = number("stride", stride, 1, 64), number("iou", iou, 0, 1)
        self.beside = (text("sizes", sizes), text("offsets", offsets))

    def __call__(self, value: Any, sample: Sample) -> Any:
        frame = sample.framed(self.name)
        boxes, scores = self._boxes(value[0], *(sample.outputs[name] for name in self.beside))
        kept = suppressed(boxes, self.iou)
        return self.listed(boxes[kept], scores[kept], np.zeros(len(kept), np.int64), frame)

    def _boxes(self, heat: Array, sizes: Array, offsets: Array) -> tuple[Array, Array]:
        """Boxes float64 [K, 4] in pixels of the net's input and scores [K] of the cells that count, best first."""
        cells = np.flatnonzero(heat >= self.score)
        cells = cells[np.argsort(-heat.reshape(-1)[cells], kind="stable")][:CANDIDATES]
        at = np.stack(np.unravel_index(cells, heat.shape))
        middle = (at + offsets.reshape(2, -1)[:, cells] + 0.5) * self.stride
        half = np.exp(sizes.reshape(2, -1)[:, cells].astype(np.float64)) * self.stride / 2
        return np.concatenate([(middle - half)[::-1], (middle + half)[::-1]]).T, heat.reshape(-1)[cells]


def suppressed(boxes: Array, iou: float) -> Array:
    """int64: which of the boxes [K, 4], best first, no better one overlaps by more than `iou`."""
    area = (boxes[:, 2:] - boxes[:, :2]).prod(axis=1)
    rest, kept = np.arange(len(boxes)), []
    while len(rest):
        first, rest = rest[0], rest[1:]
        kept.append(first)
        shared = np.minimum(boxes[first, 2:], boxes[rest, 2:]) - np.maximum(boxes[first, :2], boxes[rest, :2])
        both = np.clip(shared, 0, None).prod(axis=1)
        rest = rest[both <= iou * (area[first] + area[rest] - both)]
    return np.array(kept, np.int64)
