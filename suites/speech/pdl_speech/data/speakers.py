"""Recordings by their speakers: splits that share no speaker, and pieces of recordings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np

from pdl.data import Dataset, Fault, Sample, StandIn, check_ratios, digest, labels_of, stratified_split
from pdl.data.dataset import Dealing, not_dealt
from pdl.errors import ConfigError, listed
from pdl.hints import Range
from pdl.suites import suggest
from pdl_speech.data import standin
from pdl_speech.data.recordings import rate_of

CUT = {"train": 0.8, "val": 0.1, "test": 0.1}


class Speakers(Dataset):
    """The recordings of some of the speakers of a data set whose classes are speakers, such as `AudioFolder` or
    `AudioTable`, by whole speakers: none is in two splits. `classes` are those of the split. Sample i is {"audio":
    float32 [T], "label": int}.

    recordings  all of them
    split       train, val or test; null: all speakers
    ratios      shares of the speakers that the splits have, in the order of a hash of their names and `seed`; give all
                splits the same. By default 8:1:1, or only train where `held_out` is given
    held_out    speakers of other splits than train, such as {val: [anna], test: [bob, eve]}; `ratios` are then of the
                others
    pieces      equal parts that each recording is cut into, each of them a sample: speakers with a single recording
                have trials, too
    """

    def __init__(
        self,
        recordings: Dataset,
        *,
        split: Literal["train", "val", "test"] | None = None,
        ratios: Mapping[str, float] | None = None,
        held_out: Mapping[str, Sequence[str]] | None = None,
        pieces: Annotated[int, Range(1)] = 1,
        seed: Annotated[int, Range(0)] = 0,
    ) -> None:
        self.recordings, self.pieces, self.rate = recordings, pieces, rate_of(recordings)
        names = np.array(recordings.classes, object)
        self.spoken: Sequence[str] = names[labels_of(recordings, type(self).__name__)].tolist()
        present = [name for name in recordings.classes if name in set(self.spoken)]
        self._take(present if split is None else self._speakers(present, split, ratios, held_out or {}, seed))

    def _take(self, speakers: Sequence[str]) -> Self:
        """Only these, in the order of `recordings`."""
        chosen = set(speakers)
        self.classes = [name for name in self.recordings.classes if name in chosen]
        number = {name: label for label, name in enumerate(self.classes)}
        self.rows = np.array([row for row, name in enumerate(self.spoken) if name in chosen], np.int64)
        self._labels = np.repeat(np.array([number[self.spoken[row]] for row in self.rows], np.int64), self.pieces)
        return self

    def _speakers(
        self,
        present: Sequence[str],
        split: str,
        ratios: Mapping[str, float] | None,
        held_out: Mapping[str, Sequence[str]],
        seed: int,
    ) -> Sequence[str]:
        named = [str(name) for names in held_out.values() for name in names]
        strangers = sorted(set(named) - set(present)) + [name for name in named if named.count(name) > 1]
        if strangers:
            have = listed(present, 10)
            raise ConfigError(
                f"Speakers: held_out: {strangers[0]!r} must be one of {have}, once{suggest(strangers[0], present)}"
            )
        if split in held_out:
            return [str(name) for name in held_out[split]]
        rest = [name for name in present if name not in named]
        shares = check_ratios("Speakers", ratios or ({"train": 1.0} if held_out else CUT))
        if split not in shares:
            raise ConfigError(f"Speakers: split={split!r} is neither in ratios {shares} nor in held_out; add it")
        rows = stratified_split(np.zeros(len(rest), np.int64), shares, split, seed=seed, keys=rest)
        return [rest[row] for row in rows]

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, index: int) -> Sample:
        audio = self.recordings[self._row(index)]["audio"]
        part = index % self.pieces
        begin, end = (len(audio) * k // self.pieces for k in (part, part + 1))
        return {"audio": audio[begin:end], "label": int(self._labels[index])}

    def _row(self, index: int) -> int:
        return int(self.rows[index // self.pieces])

    @property
    def labels(self) -> np.ndarray:
        return self._labels

    @property
    def fingerprint(self) -> str:
        return digest(type(self).__name__, self.recordings.fingerprint, self.rows, str(self.pieces))

    def path_of(self, index: int) -> str | None:
        return self.recordings.path_of(self._row(index))

    def fault_of(self, index: int) -> Fault | None:
        return self.recordings.fault_of(self._row(index))

    def dealing(self, by: str | None = None) -> Dealing:
        """Speakers stay whole."""
        return Dealing("all recordings of a speaker in one fold", groups=self._labels)

    @classmethod
    def pooled(cls, datasets: Sequence[Any]) -> Dataset:
        first = datasets[0]
        if len({(data.recordings.fingerprint, data.pieces) for data in datasets}) > 1:
            raise not_dealt(first, "the splits are of different recordings, or in different pieces")
        return copy(first)._take([name for data in datasets for name in data.classes])

    def dealt(self, rows: np.ndarray, before: np.ndarray) -> Dataset:
        return copy(self)._take([self.classes[label] for label in np.unique(self._labels[rows]).tolist()])

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn:
        """Spoken digits in a folder for each of six speakers, two of them in each split."""
        standin.write_speakers(folder)
        rate = dict(settings["recordings"]).get("rate", standin.RATE)
        node = {"_target_": "pdl_speech.data.AudioFolder", "root": str(folder), "rate": rate}
        ratios = {"train": 0.34, "val": 0.33, "test": 0.33}
        return StandIn(
            {"recordings": node, "ratios": ratios, "held_out": None, "pieces": 1}, "spoken digits by speaker"
        )
