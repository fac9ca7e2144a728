"""Make the rows of pdl_rec.data.SyntheticClicks: `python tools/make_clicks.py .../data/files/synthetic_clicks.csv.gz`.

They have the columns of the Criteo display advertising challenge (`label`, numbers I1 to I13, names C1 to C26 of eight
hexadecimal digits) and its habits: few names are frequent and most are rare, counts have long tails, values are
missing, several columns say the same campaign in other words. No row is anybody's. A label depends on some columns
alone, on two pairs of them together, and on some counts.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
import sys
from pathlib import Path
from zlib import crc32

import numpy as np

ROWS, SEED = 2000, 0
NUMBERS, NAMES = 13, 26
SIZES = (40, 300, 900, 700, 12, 8, 600, 30, 3, 800, 500, 900, 450)  # how many names a column has
SIZES += (14, 600, 850, 10, 350, 120, 4, 880, 9, 15, 600, 40, 500)
CAMPAIGNS, TELLING = 80, {3: 1, 12: 1, 16: 2, 21: 1, 24: 3}  # column: how many campaigns share a name there
LACKING = {"I1": 0.4, "I4": 0.2, "I10": 0.4, "I12": 0.75, "C19": 0.4, "C20": 0.4, "C22": 0.75, "C25": 0.4, "C26": 0.4}
ALONE, PAIRS, COUNTED = (1, 2, 6, 9, 14, 17), ((2, 9), (16, 17)), (1, 5, 7, 11)


def normal(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """Standard normal numbers from uniform ones, which NumPy keeps from version to version (Box and Muller)."""
    radius, angle = rng.random(shape), rng.random(shape)
    return np.sqrt(-2 * np.log1p(-radius)) * np.cos(2 * math.pi * angle)


def rows() -> list[list[str]]:
    """The header and the rows, as text."""
    rng = np.random.default_rng(SEED)
    campaign = (CAMPAIGNS * rng.random(ROWS) ** 2).astype(int)
    names = [(size * rng.random(ROWS) ** 3).astype(int) for size in SIZES]
    for column, shared in TELLING.items():
        names[column - 1] = campaign // shared
    scale = 3 * rng.random(NUMBERS)
    logs = scale + 1.2 * normal(rng, ROWS, NUMBERS)
    logit = np.full(ROWS, -1.6)
    for column in ALONE:
        logit += 0.5 * normal(rng, SIZES[column - 1])[names[column - 1]]
    for one, other in PAIRS:
        logit += 0.9 * normal(rng, 40, 10)[names[one - 1] % 40, names[other - 1] % 10]
    for column in COUNTED:
        logit += 0.3 * (logs[:, column - 1] - scale[column - 1])
    label = rng.random(ROWS) < 1 / (1 + np.exp(-logit))
    columns = {"label": [str(int(each)) for each in label]}
    for i in range(NUMBERS):
        columns[f"I{i + 1}"] = [str(max(0, int(math.exp(each)) - 1)) for each in logs[:, i]]
    for i in range(NAMES):
        columns[f"C{i + 1}"] = [f"{crc32(f'C{i + 1} {each}'.encode()):08x}" for each in names[i]]
    for column, share in LACKING.items():
        gone = rng.random(ROWS) < share
        columns[column] = ["" if lacks else text for text, lacks in zip(columns[column], gone, strict=True)]
    return [list(columns), *map(list, zip(*columns.values(), strict=True))]


def content() -> str:
    """The file, before it is compressed."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(rows())
    return text.getvalue()


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    Path(sys.argv[1]).write_bytes(gzip.compress(content().encode(), mtime=0))
