"""Resizing, moves between space and channels."""

from __future__ import annotations

import numpy as np

from pdl.ops.resize import (
    depth_to_space,
    pixel_shuffle,
    pixel_unshuffle,
    resize,
    space_to_depth,
    upsample_nearest,
)

from .case import Case, Draws

f = Draws(22).f


def keys(d, a):
    d = abs(d)
    if d <= 1:
        return (a + 2) * d**3 - (a + 3) * d**2 + 1
    return a * d**3 - 5 * a * d**2 + 8 * a * d - 4 * a if d < 2 else 0.0


def row(o, n, out, mode, align_corners, antialias):
    """The weights of the n input cells in output cell o, one by one."""
    w = np.zeros(n)
    if mode == "nearest":
        w[o * n // out] = 1
    elif mode == "nearest_exact":
        w[int((o + 0.5) * n / out)] = 1
    elif mode == "area":
        w[o * n // out : -(-(o + 1) * n // out)] = 1
        w /= w.sum()
    else:
        scale = (n - 1) / (out - 1) if align_corners else n / out
        at = o * scale if align_corners else (o + 0.5) * scale - 0.5
        wide = max(1.0, scale) if antialias else 1.0
        for k in range(-20, n + 20):
            d = (k - at) / wide
            v = keys(d, -0.5 if antialias else -0.75) if "cubic" in mode else max(0.0, 1 - abs(d))
            if antialias:
                if 0 <= k < n:
                    w[k] += v
            else:
                w[min(max(k, 0), n - 1)] += v
        w /= w.sum()
    return w


def resize_ref(x, size=None, scale=None, mode="bilinear", align_corners=False, antialias=False):
    rank = x.ndim - 2
    given = size if scale is None else scale
    for axis, v in enumerate((given,) * rank if np.isscalar(given) else given, start=1):
        out = v if scale is None else int(x.shape[axis] * v)
        matrix = np.stack([row(o, x.shape[axis], out, mode, align_corners, antialias) for o in range(out)])
        x = np.moveaxis(np.tensordot(matrix, x, (1, axis)), 0, axis)
    return x


def shuffle_ref(x, factor, channels_first):
    n, h, w, depth = x.shape
    c = depth // factor**2
    y = np.zeros((n, h * factor, w * factor, c))
    for i, j, k in np.ndindex(factor, factor, c):
        y[:, i::factor, j::factor, k] = x[
            ..., k * factor**2 + i * factor + j if channels_first else (i * factor + j) * c + k
        ]
    return y


def unshuffle_ref(x, factor, channels_first):
    n, h, w, c = x.shape
    y = np.zeros((n, h // factor, w // factor, c * factor**2))
    for i, j, k in np.ndindex(factor, factor, c):
        y[..., k * factor**2 + i * factor + j if channels_first else (i * factor + j) * c + k] = x[
            :, i::factor, j::factor, k
        ]
    return y


CASES = [
    *[
        Case(resize, [f(1, 4, 5, 2)], resize_ref, {"size": (7, 3), "mode": mode}, second=mode == "bilinear")
        for mode in ("nearest", "nearest_exact", "bilinear", "bicubic", "area")
    ],
    *[
        Case(resize, [f(1, 4, 5, 2)], resize_ref, {"size": (2, 8), "mode": mode, how: True}, second=False)
        for mode in ("bilinear", "bicubic")
        for how in ("align_corners", "antialias")
    ],
    Case(resize, [f(2, 5, 3)], resize_ref, {"size": 9, "mode": "linear"}),
    Case(resize, [f(2, 9, 20)], resize_ref, {"scale": 0.5, "mode": "cubic", "antialias": True}, second=False),
    Case(resize, [f(1, 2, 3, 2, 2)], resize_ref, {"size": (3, 3, 4), "mode": "trilinear"}, second=False),
    Case(upsample_nearest, [f(1, 2, 3, 2)], lambda x, scale: x.repeat(2, 1).repeat(2, 2), {"scale": 2}),
    Case(pixel_shuffle, [f(1, 2, 3, 8)], lambda x, factor: shuffle_ref(x, factor, True), {"factor": 2}),
    Case(pixel_unshuffle, [f(1, 4, 6, 2)], lambda x, factor: unshuffle_ref(x, factor, True), {"factor": 2}),
    Case(depth_to_space, [f(1, 2, 1, 18)], lambda x, factor: shuffle_ref(x, factor, False), {"factor": 3}),
    Case(space_to_depth, [f(1, 4, 6, 2)], lambda x, factor: unshuffle_ref(x, factor, False), {"factor": 2}),
]
