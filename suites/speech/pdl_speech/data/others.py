"""One more class beside those of a data set: what is none of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from pdl.data import Dataset, Fault, Sample, StandIn, check_ratios, digest, labels_of, stable_split
from pdl.data.randomness import SampleRandom
from pdl.data.store import locate
from pdl.errors import ConfigError, DataError
from pdl.hints import Range
from pdl_speech.data import rooms, standin
from pdl_speech.data.recordings import fault_of, rate_of, read_recording, recordings_in
from pdl_speech.data.transcripts import samples_of

CUT = {"train": 0.8, "val": 0.1, "test": 0.1}
LEVEL = (-70.0, -20.0)  # of noise, dB below full scale


class WithOthers(Dataset):
    """The recordings of a data set, and behind them those of one more class in which none of its classes is heard, so
    that a net can say so: pieces of other recordings, and noise. Sample i is {"audio": float32 [T], "label": int}.

    recordings  the data set, such as an `AudioTable` of keywords
    others      a folder of other recordings, sub-folders included; a relative one is also looked for under PDL_DATA
    name        what the class is called
    seconds     of a piece; recordings are cut into as many as they have, and what remains is left out
    noise       how many samples of noise there are, by default as many as a class has on average: white, pink or brown,
                at levels drawn from -70 to -20 dB, some of them silence
    split       train, val or test: only pieces of its own recordings; null: of all
    ratios      the shares of the other recordings that the splits have, in the order of a hash of their names and
                `seed`; give all splits the same. By default 8:1:1
    """

    unfoldable = "the pieces of a recording belong together"

    def __init__(
        self,
        recordings: Dataset,
        *,
        others: str | Path,
        name: str = "other",
        seconds: Annotated[float, Range(0.05, 60)] = 1.0,
        noise: Annotated[int, Range(0)] | None = None,
        split: Literal["train", "val", "test"] | None = None,
        ratios: Mapping[str, float] | None = None,
        seed: Annotated[int, Range(0)] = 0,
    ) -> None:
        if name in recordings.classes:
            raise ConfigError(f"WithOthers: name={name!r} is a class of the recordings already; give another one")
        self.recordings, self.rate = recordings, rate_of(recordings)
        self.classes = [*recordings.classes, name]
        self.seconds, self.seed, self.split = seconds, seed, split
        folder = locate(others)
        files = recordings_in(folder)
        shares = check_ratios("WithOthers", ratios or CUT)
        if split is not None and split not in shares:
            raise ConfigError(f"WithOthers: split={split!r} is not in ratios {shares}; add it")
        keys = [path.relative_to(folder).as_posix() for path in files]
        rows = np.arange(len(files)) if split is None else stable_split(keys, shares, split, seed=seed)
        counts = [samples_of(files[row], self.rate) // round(seconds * self.rate) for row in rows]
        self.pieces = [(files[row], part) for row, n in zip(rows, counts, strict=True) for part in range(n)]
        if not self.pieces:
            raise DataError(
                f"{folder}: none of its {len(files)} recordings that is of split {split!r} lasts {seconds:g} s; "
                "expected a folder of longer ones, or fewer seconds"
            )
        self.noise = round(len(recordings) / max(len(recordings.classes), 1)) if noise is None else noise
        more = np.full(len(self.pieces) + self.noise, len(recordings.classes), np.int64)
        self._labels = np.concatenate([labels_of(recordings, "WithOthers"), more])

    def __len__(self) -> int:
        return len(self._labels)

    def __getitem__(self, index: int) -> Sample:
        if not 0 <= index < len(self):
            raise IndexError(f"index {index} is outside of a data set of {len(self)} samples")
        if index < len(self.recordings):
            return self.recordings[index]
        return {"audio": self._other(index), "label": int(self._labels[index])}

    def _other(self, index: int) -> np.ndarray:
        number, samples = index - len(self.recordings), round(self.seconds * self.rate)
        if number < len(self.pieces):
            path, part = self.pieces[number]
            return read_recording(str(path), self.rate, index)[part * samples :][:samples]
        drawn = SampleRandom(self.seed, 0, number).fork(f"noise {self.split}")
        made = rooms.noise(samples, tuple(rooms.COLOURS)[drawn.integers(0, len(rooms.COLOURS))], self.rate, drawn)
        level = 10 ** (drawn.uniform(*LEVEL) / 20) * (drawn.uniform() > 0.1)
        return (made / max(float(np.sqrt(np.mean(made**2))), 1e-9) * level).astype(np.float32)

    @property
    def labels(self) -> np.ndarray:
        return self._labels

    @property
    def fingerprint(self) -> str:
        said = [f"{path}:{part}" for path, part in self.pieces]
        return digest(
            type(self).__name__,
            self.recordings.fingerprint,
            *said,
            str((self.seconds, self.noise, self.seed, self.split)),
        )

    def path_of(self, index: int) -> str | None:
        if index < len(self.recordings):
            return self.recordings.path_of(index)
        number = index - len(self.recordings)
        return str(self.pieces[number][0]) if number < len(self.pieces) else None

    def fault_of(self, index: int) -> Fault | None:
        if index < len(self.recordings):
            return self.recordings.fault_of(index)
        path = self.path_of(index)
        return None if path is None else fault_of(path, index)

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn:
        """Some spoken digits in a table, and others in a folder."""
        standin.write_folders(folder / "others", standin.NAMES[5:], splits=False)
        path = standin.write_table(folder, standin.NAMES[:5])
        rate = dict(settings["recordings"]).get("rate", standin.RATE)
        node = {
            "_target_": "pdl_speech.data.AudioTable",
            "path": str(path),
            "rate": rate,
            "split": settings.get("split"),
        }
        return StandIn({"recordings": node, "others": str(folder / "others"), "seconds": 0.3}, "spoken digits")
