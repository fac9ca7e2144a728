"""The penalty that keeps levels apart."""

from __future__ import annotations

import numpy as np

import pdl
from pdl.tensor import Tensor


def overlaps(states: Tensor) -> Tensor:
    """|<psi_j|psi_k>|^2 at [k, j] for j < k, else 0, of states [K, 2, 2^n] (real, imaginary); no gradient to j."""
    real, imaginary, fixed = states[:, 0], states[:, 1], states.detach()
    a, b = fixed[:, 0].T, fixed[:, 1].T
    squares = (real @ a + imaginary @ b) ** 2 + (imaginary @ a - real @ b) ** 2
    return squares * pdl.as_tensor(np.tril(np.ones((states.shape[0],) * 2), -1))
