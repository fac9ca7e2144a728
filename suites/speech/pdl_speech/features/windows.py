"""Windows of frames."""

from __future__ import annotations

from typing import Literal

import numpy as np

from pdl.dtype import Array

Window = Literal["hann", "hamming", "blackman", "povey", "ones"]


def window_of(name: Window, size: int, *, periodic: bool = True) -> Array:
    """float64 [size]: one period of size (or, symmetric, size - 1) steps. "povey" is Hann's to the power 0.85."""
    turn = 2 * np.pi * np.arange(size) / max(1, size if periodic else size - 1)
    hann = 0.5 - 0.5 * np.cos(turn)
    if name == "hamming":
        return np.asarray(0.54 - 0.46 * np.cos(turn))
    if name == "blackman":
        return np.asarray(0.42 - 0.5 * np.cos(turn) + 0.08 * np.cos(2 * turn))
    return np.asarray({"hann": hann, "povey": hann**0.85, "ones": np.ones(size)}[name])
