"""Images read at the points of a grid and in regions of interest."""

from __future__ import annotations

import numpy as np

import pdl
from pdl.ops.regions import affine_grid, grid_sample, roi_align

from .case import Case, Draws
from .cases_resize import keys

f = Draws(21).f


def reflect(at, n, align_corners):
    """Mirror a position at the edges of n cells, step by step."""
    low, high = (0, n - 1) if align_corners else (-0.5, n - 0.5)
    if low == high:
        return 0.0
    while not low <= at <= high:
        at = 2 * low - at if at < low else 2 * high - at
    return at


def inside(at, n, padding_mode, align_corners):
    at = reflect(at, n, align_corners) if padding_mode == "reflection" else at
    return at if padding_mode == "zeros" else min(max(at, 0), n - 1)


def sample_ref(x, grid, mode="bilinear", padding_mode="zeros", align_corners=False):
    """The weight of every cell at every point, one by one."""
    _n, h, w, c = x.shape
    y = np.zeros((*grid.shape[:-1], c))
    for at in np.ndindex(grid.shape[:-1]):
        weights = []
        for v, m in ((grid[at][1], h), (grid[at][0], w)):
            p = (v + 1) / 2 * (m - 1) if align_corners else ((v + 1) * m - 1) / 2
            how = (m, padding_mode, align_corners)
            weight = np.zeros(m)
            if mode == "bicubic":
                for k in range(int(np.floor(p)) - 1, int(np.floor(p)) + 3):
                    cell = round(inside(k, *how))
                    if 0 <= cell < m:
                        weight[cell] += keys(k - p, -0.75)
            else:
                p = inside(p, *how)
                for k in range(m):
                    weight[k] = max(0.0, 1 - abs(p - k)) if mode == "bilinear" else float(np.rint(p) == k)
            weights.append(weight)
        y[at] = np.einsum("i,j,ijc->c", *weights, x[at[0]])
    return y


def affine_ref(theta, size, align_corners=False):
    y = np.zeros((len(theta), *size, 2))
    for n, i, j in np.ndindex(y.shape[:3]):
        at = [
            (2 * k / (m - 1) - 1 if m > 1 else 0.0) if align_corners else (2 * k + 1) / m - 1
            for k, m in ((j, size[1]), (i, size[0]))
        ]
        y[n, i, j] = theta[n] @ [*at, 1]
    return y


def roi_ref(x, rois, index, size, ratio=0, scale=1.0, half_pixel=True, mode="avg"):
    """Every sample of every bin, one by one."""
    shift = 0.5 if half_pixel else 0.0
    y = np.zeros((len(rois), *size, x.shape[3]))
    for r, i, j in np.ndindex(y.shape[:3]):
        if index[r] < 0:
            continue
        start, bins, counts = [], [], []
        for a, cells in ((1, size[0]), (0, size[1])):
            low = rois[r][a] * scale - shift
            length = rois[r][a + 2] * scale - shift - low
            length = length if half_pixel else max(length, 1.0)
            start.append(low)
            bins.append(length / cells)
            counts.append(ratio or max(0, int(np.ceil(length / cells))))
        found = []
        for p, q in np.ndindex(*counts):
            at = [s + (b + (k + 0.5) / n) * w
                  for s, b, k, n, w in zip(start, (i, j), (p, q), counts, bins, strict=True)]  # fmt: skip
            parts = [np.zeros(x.shape[3])]
            if all(-1 <= v <= m for v, m in zip(at, x.shape[1:3], strict=True)):
                at = [min(max(v, 0), m - 1) for v, m in zip(at, x.shape[1:3], strict=True)]
                parts = [
                    x[index[r], u, v] * (1 - abs(at[0] - u)) * (1 - abs(at[1] - v))
                    for u in range(x.shape[1])
                    for v in range(x.shape[2])
                    if abs(at[0] - u) < 1 and abs(at[1] - v) < 1
                ]
                parts += [np.zeros(x.shape[3])] * (4 - len(parts))
            found.append(np.max(parts, axis=0) if mode == "max" else np.sum(parts, axis=0))
        found = found or [np.zeros(x.shape[3])]
        y[r, i, j] = np.max(found, axis=0) if mode == "max" else np.mean(found, axis=0)
    return y


def deform_ref(x, offset, w, b=None, mask=None, stride=1, padding=0, dilation=1, groups=1):
    """Every tap of every cell, one by one."""
    (kh, kw, each, o), (n, rows, columns, _), c = w.shape, offset.shape, x.shape[3]
    blocks = offset.shape[3] // (2 * kh * kw)
    y = np.zeros((n, rows, columns, o))
    for m, i, j, u, v, ch in np.ndindex(n, rows, columns, kh, kw, c):
        at = ch // (c // blocks) * kh * kw + u * kw + v
        row = i * stride - padding + u * dilation + offset[m, i, j, 2 * at]
        column = j * stride - padding + v * dilation + offset[m, i, j, 2 * at + 1]
        value = sum(
            x[m, p, q, ch] * max(0, 1 - abs(row - p)) * max(0, 1 - abs(column - q))
            for p in range(x.shape[1])
            for q in range(x.shape[2])
        )
        group, share = ch // each, o // groups
        mine = slice(group * share, (group + 1) * share)
        y[m, i, j, mine] += value * (1 if mask is None else mask[m, i, j, at]) * w[u, v, ch % each, mine]
    return y if b is None else y + b


def deform_conv2d(x, offset, w, b, mask, **how):
    return pdl.deform_conv2d(x, offset, w, b, mask=mask, **how)


R = np.random.default_rng(3)


def drawn(*shape):
    return R.uniform(-1, 1, shape)


GRID = R.uniform(-1.4, 1.4, (2, 3, 2, 2))
CORNER = R.uniform(-1, 5, (4, 2))
ROIS = np.concatenate([CORNER, CORNER + R.uniform(0.5, 6, (4, 2))], axis=1)
IMAGES = np.array([1, 0, 1, 1])
NOWHERE = np.array([1, -1, 0, -1])
#: one with swapped corners, one far larger than the image
WIDE = np.array([[5.2, 4.1, 1.3, 0.4], [-9.5, -3, 30, 25.5]])
MOVED = "bfloat16 coordinates move samples across cells"

CASES = [
    *[
        Case(
            grid_sample,
            [f(2, 3, 4, 2), GRID],
            sample_ref,
            {"mode": mode, "padding_mode": p, "align_corners": a},
            second=p == "zeros",
            bf16=None,
            why=MOVED,
        )
        for mode in ("bilinear", "bicubic")
        for p in ("zeros", "border", "reflection")
        for a in (False, True)
    ],
    Case(grid_sample, [f(2, 1, 1, 20), GRID], sample_ref, {"padding_mode": "border"}, grad=(0,), bf16=None, why=MOVED),
    Case(grid_sample, [f(2, 3, 4, 2), GRID], sample_ref, {"mode": "nearest"}, grad=(0,), bf16=None, why=MOVED),
    *[Case(affine_grid, [f(2, 2, 3)], affine_ref, {"size": s, "align_corners": a})
      for s in ((3, 4), (1, 2)) for a in (False, True)],
    *[
        Case(
            roi_align,
            [f(2, 5, 6, 3), ROIS, IMAGES],
            roi_ref,
            {"size": (2, 3), "ratio": ratio, "scale": 0.7, "half_pixel": half, "mode": mode},
            differentiable=(0,) if mode == "avg" else (),
            grad=(0,),
            bf16=None,
            why=MOVED,
        )
        for ratio in (0, 2)
        for half in (False, True)
        for mode in ("avg", "max")
    ],
    Case(deform_conv2d, [drawn(2, 2, 3, 4), 2 * drawn(2, 2, 3, 36), drawn(3, 3, 4, 3), drawn(3), drawn(2, 2, 3, 18)],
         deform_ref, {"padding": 1}, bf16=None, why=MOVED),
    Case(deform_conv2d, [drawn(1, 5, 4, 4), drawn(1, 2, 2, 24), drawn(3, 2, 2, 4), None, None], deform_ref,
         {"stride": 2, "groups": 2}, bf16=None, why=MOVED),
    Case(deform_conv2d, [drawn(1, 5, 6, 2), drawn(1, 3, 4, 8), drawn(2, 2, 2, 3), drawn(3), None], deform_ref,
         {"dilation": 2}, bf16=None, why=MOVED),
    Case(roi_align, [R.uniform(-1, 1, (2, 9, 7, 70)), WIDE, IMAGES[:2]], roi_ref, {"size": (3, 2)}, grad=(), bf16=None,
         why=MOVED),
    Case(roi_align, [R.uniform(-1, 1, (2, 5, 6, 3)), ROIS, NOWHERE], roi_ref, {"size": (2, 2)}, grad=(0,), bf16=None,
         why=MOVED),
]  # fmt: skip
