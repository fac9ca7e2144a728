"""Sessions for the benches of recommendation, and GRU4Rec's mini-batches of them. Imports no framework."""

from __future__ import annotations

import gzip
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

YOOCHOOSE = "rec/yoochoose100k_train_full.txt.gz"


@dataclass(frozen=True)
class Sessions:
    """Items from 1 to `items` (0 is none), one session behind the other, beginning at `offsets` (and the end)."""

    events: np.ndarray
    offsets: np.ndarray
    items: int


def zipf_sessions(items: int, events: int, seed: int = 0) -> Sessions:
    """Item k with a probability of about 1 / (k + 10), lengths 2 + geometric of mean 4."""
    rng = np.random.default_rng(seed)
    lengths = 1 + rng.geometric(0.25, events // 4)
    lengths = lengths[: np.searchsorted(np.cumsum(lengths), events)]
    u = rng.random(int(lengths.sum()))
    drawn = np.minimum(10 * ((1 + items / 10) ** u - 1), items - 1).astype(np.int64)
    return Sessions(rng.permutation(items)[drawn] + 1, np.append(0, np.cumsum(lengths)), items)


def yoochoose() -> Sessions:
    """RSC15-100k, where PDL_DATA has it: its training events, sessions in the order of the file."""
    path = Path(os.environ.get("PDL_DATA", "")) / YOOCHOOSE
    if not path.is_file():
        raise SystemExit(f"there is no {path}; set PDL_DATA, or leave --data out for drawn sessions")
    with gzip.open(path, "rt") as file:
        header = file.readline().rstrip("\n").split("\t")
        columns = [line.rstrip("\n").split("\t") for line in file]
    session, item = (np.array([row[header.index(name)] for row in columns]) for name in ("SessionId", "ItemId"))
    names, numbers = np.unique(item, return_inverse=True)
    begins = np.flatnonzero(np.append(True, session[1:] != session[:-1]))
    return Sessions(numbers.astype(np.int64) + 1, np.append(begins, len(session)), len(names))


def session_parallel(data: Sessions, batch: int, steps: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(items, targets int64 [steps, batch], reset bool [steps, batch]): `batch` sessions side by side, each followed by
    the next that nobody has taken, over and over."""
    items, targets = (np.empty((steps, batch), np.int64) for _ in range(2))
    reset = np.zeros((steps, batch), bool)
    count = len(data.offsets) - 1
    at, end = data.offsets[:batch].copy(), data.offsets[1 : batch + 1].copy()
    reset[0], taken = True, batch
    for step in range(steps):
        items[step], targets[step] = data.events[at], data.events[at + 1]
        at += 1
        for slot in np.flatnonzero(at + 1 >= end):
            while True:
                number, taken = taken % count, taken + 1
                at[slot], end[slot] = data.offsets[number : number + 2]
                if end[slot] - at[slot] > 1:
                    break
            if step + 1 < steps:
                reset[step + 1, slot] = True
    return items, targets, reset


def negatives(data: Sessions, steps: int, count: int, alpha: float, seed: int = 1) -> tuple[np.ndarray, np.ndarray]:
    """(items int64 [steps, count], drawn with probability ~ frequency^alpha; its logarithm, float32 [items + 1])."""
    weight = np.bincount(data.events, minlength=data.items + 1).astype(np.float64) ** alpha
    weight[0] = 0
    share = np.maximum(weight, 1e-9) / weight.sum()
    drawn = np.searchsorted(np.cumsum(weight) / weight.sum(), np.random.default_rng(seed).random((steps, count)))
    return np.minimum(drawn, data.items).astype(np.int64), np.log(share).astype(np.float32)
