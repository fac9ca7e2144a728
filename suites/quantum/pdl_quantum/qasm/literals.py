"""Numbers as OpenQASM writes them."""

from __future__ import annotations

import numpy as np

PARTS = (1, 2, 3, 4, 6, 8, 16, 32, 64, 128)


def number(value: float) -> str:
    """A number that reads back the same: a part of pi where that is it to the last bit."""
    for d in PARTS:
        k = round(value / np.pi * d)
        if k and abs(k) < 1000 and k * np.pi / d == value:
            times = {1: "pi", -1: "-pi"}.get(k, f"{k}*pi")
            return times + (f"/{d}" if d > 1 else "")
    return repr(float(value))
