"""Masks of objects: from a net's grid over a box to the pixels of an image, and as run lengths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.runtime.frame import Frame
from pdl.runtime.images import opencv
from pdl_cv import rle


def pasted(grid: Array, box: Array, frame: Frame, *, threshold: float = 0.5) -> Array:
    """The mask uint8 [H, W] of 0 and 1 in the original image: where probabilities [m, m], at the centres of m x m cells
    of a box (x1, y1, x2, y2), are above a threshold at the centres of pixels (bilinear)."""
    cv2 = opencv("detections: masks are resized")
    mask = np.zeros((frame.height, frame.width), np.uint8)
    low = np.clip(np.floor(box[:2]), 0, (frame.width, frame.height)).astype(int)
    high = np.clip(np.ceil(box[2:]), 0, (frame.width, frame.height)).astype(int)
    width, height = (high - low).tolist()
    if min(width, height) > 0:
        m = grid.shape[0]
        scale = m / np.maximum(box[2:] - box[:2], 1e-6)
        offset = (low + 0.5 - box[:2]) * scale - 0.5
        matrix = np.array([[scale[0], 0, offset[0]], [0, scale[1], offset[1]]])
        flags = cv2.INTER_LINEAR | cv2.WARP_INVERSE_MAP
        inside = cv2.warpAffine(grid, matrix, (width, height), flags=flags, borderMode=cv2.BORDER_REPLICATE)
        mask[low[1] : high[1], low[0] : high[0]] = inside > threshold
    return mask


def encode(mask: Array) -> dict[str, Any]:
    """A mask [H, W] as COCO's compressed run lengths: {"size": [H, W], "counts": "..."}."""
    return {"size": [int(n) for n in mask.shape], "counts": rle.to_text(rle.encode(mask))}


def decode(mask: Mapping[str, Any]) -> Array:
    """The mask uint8 [H, W] of what `encode` wrote."""
    return rle.decode(rle.from_text(mask["counts"]), *mask["size"])


def outlines(mask: Mapping[str, Any]) -> list[list[list[float]]]:
    """The outer outlines of a mask that `encode` wrote, as polygons in pixels."""
    cv2 = opencv("detections: outlines of masks are found")
    found, _ = cv2.findContours(decode(mask), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    return [(line[:, 0] + 0.5).tolist() for line in found if len(line) > 2]
