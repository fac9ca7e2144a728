"""Recordings by their speakers: splits that share no speaker, and pieces of recordings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import numpy as np

from pdl.data import ByClass, Dataset, Sample, StandIn, digest
from pdl.data.dataset import Dealing, not_dealt
from pdl.hints import Range
from pdl_speech.data import standin
from pdl_speech.data.recordings import rate_of


class Speakers(ByClass):
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
        super().__init__(recordings, split=split, ratios=ratios, held_out=held_out, seed=seed)

    def _take(self, classes: Sequence[str]) -> Self:
        super()._take(classes)
        self._labels = np.repeat(self._labels, self.pieces)
        return self

    def row_of(self, index: int) -> int:
        return int(self.rows[index // self.pieces])

    def __getitem__(self, index: int) -> Sample:
        audio = self.recordings[self.row_of(index)]["audio"]
        part = index % self.pieces
        begin, end = (len(audio) * k // self.pieces for k in (part, part + 1))
        return {"audio": audio[begin:end], "label": int(self._labels[index])}

    @property
    def fingerprint(self) -> str:
        return digest(type(self).__name__, self.recordings.fingerprint, self.rows, str(self.pieces))

    def dealing(self, by: str | None = None) -> Dealing:
        """Speakers stay whole."""
        return Dealing("all recordings of a speaker in one fold", groups=self._labels)

    @classmethod
    def pooled(cls, datasets: Sequence[Any]) -> Dataset:
        if len({data.pieces for data in datasets}) > 1:
            raise not_dealt(datasets[0], "the splits have recordings in different pieces")
        return super().pooled(datasets)

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
