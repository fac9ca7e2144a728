"""Spoken digits: the few that ship with pdl-speech, and all of the Free Spoken Digit Dataset."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from pdl.data.dataset import Dataset, Sample, StandIn, digest
from pdl.data.faults import fault
from pdl.data.labelled import official_split
from pdl.data.splits import stratified_split
from pdl.data.store import find
from pdl.errors import ConfigError, listed
from pdl.hints import Inherited, Range
from pdl_speech.audio.resample import resample
from pdl_speech.data import standin
from pdl_speech.data.recordings import AudioFiles, Rate

FILE = resources.files("pdl_speech.data") / "files" / "digits.npz"
DIGITS = [str(digit) for digit in range(10)]
RECORDED = 8000  # Hz
NAME = re.compile(r"([0-9])_([a-z]+)_([0-9]+)\.wav")
TEST_TAKES = 5  # 0 to 4: the official test


class SpokenDigits(Dataset):
    """300 recordings of the digits 0 to 9 in English, by six speakers, at 8 kHz: a part of the Free Spoken Digit
    Dataset (Jackson et al., 2016; CC BY-SA 4.0) that ships with pdl-speech. Sample i is {"audio": float32 [T], "label":
    int}.

    split  train (takes 5 to 7 of each digit and speaker), val (take 8) or test (take 0)
    rate   to which recordings are resampled (Hz)
    """

    foldable = True

    def __init__(self, *, split: Literal["train", "val", "test"] = "train", rate: Rate = RECORDED) -> None:
        waves, digit, speakers, take = shipped()
        rows = np.flatnonzero({"train": (take > 0) & (take < 8), "val": take == 8, "test": take == 0}[split])
        self.waves, self._labels, self.speakers = [waves[i] for i in rows], digit[rows], speakers[rows]
        self.rate, self.split, self.classes = rate, split, DIGITS

    def __len__(self) -> int:
        return len(self.waves)

    def __getitem__(self, index: int) -> Sample:
        return {"audio": resample(self.waves[index], RECORDED, self.rate), "label": int(self._labels[index])}

    @property
    def labels(self) -> np.ndarray:
        return self._labels

    @property
    def fingerprint(self) -> str:
        return digest(type(self).__name__, self.split, str(self.rate), self._labels)


@cache
def shipped() -> tuple[list[np.ndarray], np.ndarray, np.ndarray, np.ndarray]:
    """The recordings that ship: waveforms float32 at 8 kHz, and int64 [N] the digit, speaker and take of each."""
    with FILE.open("rb") as stream, np.load(stream, allow_pickle=False) as data:
        samples = (
            np.sign(data["samples"]) * np.expm1(np.abs(data["samples"].astype(np.float32)) / 127 * np.log(256)) / 255
        )
        ends = np.cumsum(data["lengths"])
        labels = [data[name].astype(np.int64) for name in ("digit", "speaker", "take")]
    digit, speaker, take = labels
    return np.split(samples.astype(np.float32), ends[:-1]), digit, speaker, take


class FSDD(AudioFiles):
    """The Free Spoken Digit Dataset (Jackson et al., 2016; CC BY-SA 4.0): 3,000 recordings of the digits 0 to 9 in
    English, six speakers with 50 takes each, at 8 kHz.

    root      the folder of its files DIGIT_SPEAKER_TAKE.wav; a relative one is below PDL_DATA
    split     train, val or test: officially test are the takes 0 to 4. val is cut out of train by `ratios`, or
              has speakers of its own
    held_out  speakers whose takes, all of them, are the test; train has those of all others
    val       speakers whose takes, all of them, are val, and no part of train
    ratios    such as {train: 0.9, val: 0.1}: train is cut at these shares, each class alike; give all splits the same
    label     what a class is: the digit that is said, or who says it
    All else is as in `AudioFiles`.
    """

    def __init__(
        self,
        root: str | Path = "fsdd",
        *,
        split: Literal["train", "val", "test"] = "train",
        held_out: Sequence[str] = (),
        val: Sequence[str] = (),
        ratios: Mapping[str, float] | None = None,
        label: Literal["digit", "speaker"] = "digit",
        seed: Annotated[int, Range(0)] = 0,
        **options: Inherited,
    ) -> None:
        places = [f"{root}/{inner}" for inner in ("recordings", "fsdd", ".")]
        folder = find(
            "the Free Spoken Digit Dataset", places, address="https://github.com/Jakobovski/free-spoken-digit-dataset"
        )
        names = sorted(each.name for each in folder.glob("*.wav"))
        found = [match for name in names if (match := NAME.fullmatch(name))]
        if not found:
            raise fault(folder, "it has no files called DIGIT_SPEAKER_TAKE.wav", "name the folder of the recordings")
        speakers = np.array([match[2] for match in found])
        self.speakers = sorted(set(speakers.tolist()))
        strangers = sorted({*held_out, *val} - set(self.speakers)) + sorted(set(held_out) & set(val))
        if strangers:
            raise ConfigError(f"FSDD: held_out and val: {strangers[0]!r} must be one of {listed(self.speakers)}, once")
        test = np.isin(speakers, held_out) if held_out else np.array([int(match[3]) < TEST_TAKES for match in found])
        validation = np.isin(speakers, val) & ~test
        if val and ratios is not None:
            raise ConfigError("FSDD: val and ratios both say what is validation; give one of them")
        if split == "val" and val:
            rows = np.flatnonzero(validation)
        else:
            part = official_split("FSDD", split, ratios, ("train", "test"))
            rows = np.flatnonzero(test if part == "test" else ~test & ~validation)
        said = np.array([int(match[1]) for match in found], np.int64)
        labels = said if label == "digit" else np.searchsorted(self.speakers, speakers)
        if ratios is not None and split in ratios:
            keys = [found[row][0] for row in rows]
            rows = rows[stratified_split(labels[rows], ratios, split, seed=seed, keys=keys)]
        own = labels[rows]
        if label == "speaker":  # splits have their own
            present, own = np.unique(own, return_inverse=True)
        classes = DIGITS if label == "digit" else [self.speakers[number] for number in present]
        super().__init__(folder, [found[row][0] for row in rows], own, classes, seed=seed, **options)

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn:
        standin.write_digits(folder)
        return StandIn({"root": str(folder), "per_class": None}, "some of its recordings")
