"""Several spoken digits one behind the other."""

from __future__ import annotations

from functools import cached_property
from typing import Annotated, Literal

import numpy as np

from pdl.data.dataset import Dataset, Sample, digest
from pdl.dtype import Array
from pdl.hints import Range
from pdl_speech.audio.resample import resample
from pdl_speech.data import standin
from pdl_speech.data.digits import RECORDED, SpokenDigits
from pdl_speech.data.recordings import Rate

PAUSE = (0.02, 0.25)  # seconds between digits, and before and behind them
COUNTS = {"train": 2000, "val": 200, "test": 400}


class DigitSequences(Dataset):
    """Numbers read digit by digit, put together of the recordings of `SpokenDigits` by one speaker each, with pauses of
    faint noise: for a first look at recognition, and no measure of it. Sample i is {"audio": float32 [T], "text":
    "three one four", "speaker": str}, a function of i, the split and `seed` alone.

    split   train, val or test: takes of the digits that the other splits do not have
    count   of sequences; by default 2,000, 200 and 400
    digits  the fewest and the most of a sequence
    rate    to which recordings are resampled (Hz)
    seed    of the sequences
    """

    generated = True

    unfoldable = "sequences are generated, as many as are wanted, of takes that each split has alone"

    def __init__(
        self,
        *,
        split: Literal["train", "val", "test"] = "train",
        count: Annotated[int, Range(1)] | None = None,
        digits: tuple[Annotated[int, Range(1)], Annotated[int, Range(1)]] = (1, 5),
        rate: Rate = RECORDED,
        seed: Annotated[int, Range(0)] = 0,
    ) -> None:
        self.rate, self.split, self.seed = rate, split, seed
        self._count, self._digits = count or COUNTS[split], digits
        self._spoken = SpokenDigits(split=split)

    def __len__(self) -> int:
        return self._count

    @cached_property
    def _plans(self) -> list[tuple[list[int], Array]]:
        """Of each sequence the recordings that make it up, and the samples of the pauses around them."""
        rng = np.random.default_rng((self.seed, len(self.split)))
        speakers = self._spoken.speakers
        by_speaker = [np.flatnonzero(speakers == speaker) for speaker in np.unique(speakers)]
        made = []
        for _ in range(self._count):
            own = by_speaker[rng.integers(len(by_speaker))]
            rows = rng.choice(own, rng.integers(self._digits[0], self._digits[1] + 1)).tolist()
            made.append((rows, (rng.uniform(*PAUSE, len(rows) + 1) * RECORDED).astype(np.int64)))
        return made

    def __getitem__(self, index: int) -> Sample:
        rows, pauses = self._plans[index]
        rng = np.random.default_rng((self.seed, len(self.split), index))
        parts = [_hiss(int(pauses[0]), rng)]
        for row, pause in zip(rows, pauses[1:].tolist(), strict=True):
            parts += [self._spoken.waves[row], _hiss(pause, rng)]
        speaker = standin.SPEAKERS[int(self._spoken.speakers[rows[0]])]
        wave = resample(np.concatenate(parts), RECORDED, self.rate)
        return {"audio": wave, "text": self.texts[index], "speaker": speaker}

    @cached_property
    def texts(self) -> list[str]:
        """What is said."""
        digits = self._spoken.labels
        return [" ".join(standin.NAMES[digits[row]] for row in rows) for rows, _ in self._plans]

    @cached_property
    def lengths(self) -> Array:
        """int64 [N]: the samples of each."""
        own = [sum(len(self._spoken.waves[row]) for row in rows) + int(pauses.sum()) for rows, pauses in self._plans]
        return -(-np.array(own, np.int64) * self.rate // RECORDED)

    @property
    def fingerprint(self) -> str:
        low, high = self._digits
        return digest(type(self).__name__, self.split, f"{self._count} {low} {high} {self.rate} {self.seed}")


def _hiss(samples: int, rng: np.random.Generator) -> Array:
    return rng.normal(0, 1e-3, samples).astype(np.float32)
