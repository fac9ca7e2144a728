"""Words by their letters."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import numpy as np


def trigrams(names: Sequence[str], buckets: int) -> np.ndarray:
    """Numbers of the letter trigrams of each name, int64 [names + 1, L]; row 0 and what is behind the last are zeros.

    "web" is read as "#web#" and gives #we, web, eb# (Huang et al., CIKM 2013, section 3.2); a trigram has the number
    1 + crc32(its UTF-8 bytes) modulo (buckets - 1), so names that training never had are read, too.
    """
    found = [sorted({1 + zlib.crc32(part.encode()) % (buckets - 1) for part in _parts(name)}) for name in names]
    table = np.zeros((len(names) + 1, max(map(len, found), default=1)), np.int64)
    for row, numbers in enumerate(found, 1):
        table[row, : len(numbers)] = numbers
    return table


def _parts(name: str) -> list[str]:
    whole = f"#{name.lower()}#"
    return [whole[i : i + 3] for i in range(max(len(whole) - 2, 1))]


def spelled(words: np.ndarray, table: np.ndarray) -> np.ndarray:
    """Words int64 [N, L] to their trigrams int64 [N, L'], each word's behind the one before, zeros behind the last."""
    wide = table[words].reshape(len(words), -1)
    order = np.argsort(wide == 0, axis=1, kind="stable")
    packed = np.take_along_axis(wide, order, axis=1)
    width = int((packed > 0).sum(axis=1).max(initial=1))
    return packed[:, : max(width, 1)]


__all__ = ["spelled", "trigrams"]
