"""What heatmaps are taught."""

from __future__ import annotations

import numpy as np

import pdl
from pdl import Tensor


def gaussians(keypoints: Tensor, size: tuple[int, int], *, stride: float, sigma: float) -> Tensor:
    """Heatmaps of Gaussians of height 1: keypoints [N, P, 2 or more] (x, y) in pixels -> [N, h, w, P].

    Cell (i, j) of `size` (h, w) covers `stride` pixels a side, and has exp(-d^2 / (2 sigma^2)) of the distance d of its
    middle from the point, in cells.
    """
    h, w = size
    x, y = (pdl.expand_dims(keypoints[..., axis], 1) / stride - 0.5 for axis in (0, 1))  # [N, 1, P]
    columns, rows = (np.arange(n, dtype=np.float32)[None, :, None] for n in (w, h))
    across, down = (pdl.exp(pdl.square(at - cells) / (-2 * sigma**2)) for at, cells in ((x, columns), (y, rows)))
    return pdl.expand_dims(down, 2) * pdl.expand_dims(across, 1)


def heatmap_loss(heatmaps: Tensor, keypoints: Tensor, *, stride: float, sigma: float) -> Tensor:
    """Mean squared difference of heatmaps [N, h, w, P] from Gaussians at keypoints [N, P, 3] (x, y in pixels of the
    net's input, visibility), over the maps of points that are known (visibility above 0).
    """
    h, w = heatmaps.shape[1:3]
    known = pdl.astype(keypoints[..., 2] > 0, heatmaps.dtype)  # [N, P]
    target = gaussians(keypoints, (h, w), stride=stride, sigma=sigma)
    each = pdl.mean(pdl.square(heatmaps - target), axis=(1, 2))
    return pdl.sum(each * known) / pdl.maximum(pdl.sum(known), 1.0)
