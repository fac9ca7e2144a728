"""Bit strings and the basis states that they are: bit q is qubit q, and qubit 0 is the most significant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pdl.errors import DataError

Array = np.ndarray


def bits_of(indices: Any, n: int) -> Array:
    """Indices of basis states int [...] -> bits uint8 [..., n]."""
    shifts = np.arange(n - 1, -1, -1, dtype=np.int64)
    return (np.asarray(indices, np.int64)[..., None] >> shifts & 1).astype(np.uint8)


def index_of(bits: Any) -> Array:
    """Bits [..., n] -> indices int64 [...]."""
    given = np.asarray(bits, np.int64)
    return (given << np.arange(given.shape[-1] - 1, -1, -1, dtype=np.int64)).sum(-1)


def text_of(bits: Sequence[int] | Array) -> str:
    """Bits as text, "0110"."""
    return "".join("1" if bit else "0" for bit in bits)


def read_bits(text: str, n: int) -> Array:
    """The bits uint8 [n] of "0110", "0 1 1 0" or "0,1,1,0"; DataError where these are not n of them."""
    plain = text.strip().replace(",", "").replace(" ", "")
    if set(plain) - {"0", "1"} or len(plain) != n:
        raise DataError(f"{text!r:.60} is no bit string of {n} bits; write {n} of 0 and 1, the first for qubit 0")
    return np.array([int(each) for each in plain], np.uint8)
