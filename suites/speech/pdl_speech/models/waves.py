"""Places and distances as sines."""

from __future__ import annotations

import numpy as np

import pdl

PERIOD = 10_000.0  # of the slowest wave, over 2 pi


def waves(far: pdl.Tensor, dim: int) -> pdl.Tensor:
    """Distances float32 [n, 1] -> [n, dim]: sine and cosine of each in dim / 2 waves (Dai et al., arXiv
    1901.02860)."""
    width = dim // 2
    angles = far * pdl.as_tensor((PERIOD ** -(np.arange(width) / width)).astype(np.float32))
    return pdl.concat([pdl.sin(angles), pdl.cos(angles)], axis=1)
