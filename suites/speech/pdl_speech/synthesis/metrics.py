"""How near what is said is to a recording of the same text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from pdl.dtype import Array
from pdl.train.metrics import Metric

CEPSTRA = 13
DECIBEL = 10 / np.log(10)


class Compared(NamedTuple):
    """What is said, and a recording.

    mel_l1    mean |difference| of ln mel energies, along the cheapest path between their frames
    mcd       `distortion` of the sound, along such a path
    copy_mcd  that of copy synthesis: of the sound that is made of the recording's own energies
    duration  |difference| of their lengths, as a share of the recording's
    """

    mel_l1: float
    mcd: float
    copy_mcd: float
    duration: float


class Said(NamedTuple):
    """A text that was said, for reports: ln mel energies [frames, bands] as the net and the recording have them, the
    sound [T], frames of each character in the recording int64 [U] (of bundles unknown), and the sample's number."""

    text: str
    made: Array
    heard: Array
    sound: Array
    durations: Array | None
    number: int


def cepstra(mel: Array, count: int = CEPSTRA) -> Array:
    """ln energies of mel bands [frames, bands] as c_1 ... c_count, float64 [frames, count], of ln |amplitude| = c_0 +
    sum_d c_d cos(pi d (band + 1/2) / bands)."""
    bands = mel.shape[1]
    waves = np.cos(np.pi / bands * np.outer(np.arange(bands) + 0.5, np.arange(1, count + 1))) / bands
    made: Array = mel.astype(np.float64) @ waves
    return made


def distortion(a: Array, b: Array) -> Array:
    """The mel-cepstral distortion in dB of cepstra [N, D] and [M, D], each with each, [N, M]: 10 / ln 10 sqrt(2 sum_d
    (a_d - b_d)^2) (Kubichek, 1993)."""
    square = (a**2).sum(axis=1)[:, None] + (b**2).sum(axis=1) - 2 * a @ b.T
    made: Array = DECIBEL * np.sqrt(2 * np.maximum(square, 0))
    return made


def warped(costs: Array) -> tuple[Array, Array]:
    """The path with the smallest sum of costs [N, M] from corner to corner, of steps (1, 1), (1, 0) and (0, 1): rows
    and columns, int64 [L]. By diagonals, so that NumPy computes many places at once."""
    n, m = costs.shape
    skewed = np.full((n + m - 1, n), np.inf)  # row d, column i: costs[i, d - i]
    i, j = np.indices((n, m))
    skewed[i + j, i] = costs
    sums = np.full((n + m + 1, n + 1), np.inf)  # the same, by 2 rows and a column further
    sums[2, 1] = costs[0, 0]
    for d in range(1, n + m - 1):
        before = np.minimum(np.minimum(sums[d + 1, 1:], sums[d + 1, :-1]), sums[d, :-1])
        sums[d + 2, 1:] = skewed[d] + before
    row, column, path = n - 1, m - 1, [(n - 1, m - 1)]
    while row or column:
        d = row + column
        ways = (sums[d, row] if row and column else np.inf, sums[d + 1, row] if row else np.inf,
                sums[d + 1, row + 1] if column else np.inf)  # fmt: skip
        best = min(range(3), key=ways.__getitem__)
        row, column = row - (best != 2), column - (best != 1)
        path.append((row, column))
    found = np.array(path[::-1])
    return found[:, 0], found[:, 1]


def sound_distortion(sound: Array, heard: Array, listen: Callable[[Array], Array]) -> float:
    """The mean `distortion` of a sound [T] against ln mel energies [frames, bands] along the cheapest path; `listen`
    gives those of a sound. NaN of no sound."""
    if not len(sound):
        return float("nan")
    costs = distortion(cepstra(listen(sound)), cepstra(heard))
    return float(costs[warped(costs)].mean())


def mel_difference(made: Array, heard: Array) -> float:
    """The mean |difference| of ln mel energies [frames, bands] along the cheapest path of their cepstra."""
    rows, columns = warped(distortion(cepstra(made), cepstra(heard)))
    return float(np.abs(made[rows].astype(np.float64) - heard[columns]).mean())


class MeanOf(Metric):
    """The mean of one number of each text."""

    def __init__(self, name: str) -> None:
        self.name, self.found = name, list[float]()

    def update(self, rows: Sequence[Compared], said: Any) -> None:
        self.found += [getattr(row, self.name) for row in rows]

    def compute(self) -> float:
        return float(np.mean(self.found)) if self.found else float("nan")


class Examples(Metric):
    """The first `most` texts as they were said, and all numbers, for the report."""

    def __init__(self, most: int) -> None:
        self.most, self.said, self.rows = most, list[Said](), list[tuple[int, str, Compared]]()

    def update(self, rows: Sequence[Compared], said: Sequence[Said]) -> None:
        self.rows += [(each.number, each.text, row) for row, each in zip(rows, said, strict=True)]
        self.said = sorted([*self.said, *said], key=lambda each: each.number)[: self.most]

    def compute(self) -> Any:
        return self


def synthesis_metrics(most: int) -> dict[str, Metric]:
    """The mean of each number of `Compared`, and examples for the report."""
    return {**{name: MeanOf(name) for name in Compared._fields}, "said": Examples(most)}
