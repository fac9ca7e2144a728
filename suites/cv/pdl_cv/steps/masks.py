"""Masks of objects: from a net's grid over a box to the pixels of an image, and as run lengths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.runtime.frame import Frame


def pasted(grid: Array, box: Array, frame: Frame, *, threshold: float = 0.5) -> Array:
    """The mask uint8 [H, W] of 0 and 1 in the original image: where probabilities [m, m], at the centres of m x m cells
    of a box (x1, y1, x2, y2), are above a threshold at the centres of pixels (bilinear)."""
    import cv2

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


def run_lengths(mask: Array) -> Array:
    """Lengths of runs of 0 and 1 in turn of a mask [H, W], column by column, beginning with 0."""
    flat = np.asarray(mask, bool).reshape(-1, order="F")
    changes = np.flatnonzero(flat[1:] != flat[:-1]) + 1
    edges = np.concatenate([[0], changes, [flat.size]]) if flat.size else np.zeros(1, np.int64)
    lengths = np.diff(edges)
    return np.concatenate([[0], lengths]) if flat.size and flat[0] else lengths


def encode(mask: Array) -> dict[str, Any]:
    """A mask [H, W] as COCO's compressed run lengths: {"size": [H, W], "counts": "..."}."""
    lengths = run_lengths(mask).tolist()
    differences = [n - lengths[i - 2] if i > 2 else n for i, n in enumerate(lengths)]
    return {"size": [int(n) for n in mask.shape], "counts": "".join(map(_letters, differences))}


def _letters(n: int) -> str:
    """A number in groups of five bits, lowest first, each a letter from "0" on; a sixth bit says that more follow."""
    said = ""
    while True:
        low, n = n & 31, n >> 5
        more = n != (-1 if low & 16 else 0)
        said += chr(48 + low + 32 * more)
        if not more:
            return said


def decode(mask: Mapping[str, Any]) -> Array:
    """The mask uint8 [H, W] of what `encode` wrote."""
    lengths: list[int] = []
    n = shift = 0
    for letter in mask["counts"]:
        low = ord(letter) - 48
        n |= (low & 31) << shift
        shift += 5
        if not low & 32:
            n -= (1 << shift) if low & 16 else 0
            lengths.append(n + lengths[-2] if len(lengths) > 2 else n)
            n = shift = 0
    values = np.arange(len(lengths), dtype=np.uint8) & 1
    return np.repeat(values, lengths).reshape(mask["size"], order="F")


def outlines(mask: Mapping[str, Any]) -> list[list[list[float]]]:
    """The outer outlines of a mask that `encode` wrote, as polygons in pixels."""
    import cv2

    found, _ = cv2.findContours(decode(mask), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    return [(line[:, 0] + 0.5).tolist() for line in found if len(line) > 2]
