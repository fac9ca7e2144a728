"""Detectors without anchor boxes: one prediction for each cell of each feature map, and the point in its middle."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

import pdl
from pdl.dtype import Array


class Points(NamedTuple):
    """The cells of all feature maps, row by row, map by map.

    at      float32 [A, 2]: (x, y) of their middles in pixels of the image
    stride  float32 [A]: their sides
    counts  how many there are of each map
    """

    at: Array
    stride: Array
    counts: tuple[int, ...]


@lru_cache(maxsize=64)
def _points(sizes: tuple[tuple[int, int], ...], strides: tuple[int, ...]) -> Points:
    found = []
    for (height, width), stride in zip(sizes, strides, strict=True):
        x, y = np.meshgrid(np.arange(width) + 0.5, np.arange(height) + 0.5)
        found.append(stride * np.stack([x.reshape(-1), y.reshape(-1)], axis=1))
    counts = tuple(len(each) for each in found)
    return Points(np.concatenate(found).astype(np.float32), np.repeat(np.array(strides, np.float32), counts), counts)


def points_of(maps: Sequence[pdl.Tensor], strides: Sequence[int]) -> Points:
    """The points of maps [N, h, w, c] of these strides."""
    return _points(tuple((int(each.shape[1]), int(each.shape[2])) for each in maps), tuple(strides))


def flat(maps: Sequence[pdl.Tensor]) -> pdl.Tensor:
    """Maps [N, h, w, c] -> [N, A, c], the cells of all maps; not bfloat16, which tells no pixels apart beyond 256."""
    rows = [pdl.reshape(x, (x.shape[0], x.shape[1] * x.shape[2], x.shape[3])) for x in maps]
    joined = pdl.concat(rows, axis=1)
    return pdl.astype(joined, pdl.float32) if joined.dtype == pdl.bfloat16 else joined


def prior_bias(probability: float = 0.01) -> float:
    """The logit of a probability: a bias by which fresh nets find objects as rarely as there are any. Lin et al., arXiv
    1708.02002, 3.3.
    """
    return -math.log((1 - probability) / probability)
