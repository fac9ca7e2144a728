"""AN4: letters, numbers and commands, spoken at Carnegie Mellon in 1991."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

from pdl.data.dataset import Dataset, Sample, StandIn, digest
from pdl.data.faults import fault
from pdl.data.splits import stable_split
from pdl.data.store import find
from pdl.errors import DataError
from pdl.hints import Range
from pdl_speech.data import standin

FRAMES = 100  # a second
CHANNELS = 13
NAMES = ("feat", "len", "text", "id")


class AN4(Dataset):
    """The census part of AN4 (Acero, 1990; free): 948 utterances of 74 speakers, and 130 of ten others for the test, as
    13 mel cepstra every 10 ms. Sample i is {"features": float32 [frames, 13], "text": str, "speaker": str}.

    path    an *.npz with the arrays {train,test}_feat float32 [frames of all, 13], _len int64 [N] the frames of each,
            _text and _id str [N], an id such as an4_clstk/SPEAKER/UTTERANCE; a relative one is below PDL_DATA
    split   train, val or test: val has speakers of its own, cut out of those of train
    share   of the speakers of train that are in val, by a hash of their names and `seed`
    """

    rate = FRAMES

    unfoldable = "its splits have speakers of their own, which folds would mix"

    def __init__(
        self,
        path: str | Path = "an4/an4_mfcc.npz",
        *,
        split: Literal["train", "val", "test"] = "train",
        share: Annotated[float, Range(above=0, below=1)] = 0.1,
        seed: Annotated[int, Range(0)] = 0,
    ) -> None:
        self.file = find("AN4", [path], address="http://www.speech.cs.cmu.edu/databases/an4, as 13 MFCC")
        features, lengths, texts, ids = _read(self.file, "test" if split == "test" else "train")
        self.split, speakers = split, [name.rpartition("/")[0].rpartition("/")[2] for name in ids]
        rows = np.arange(len(ids))
        if split != "test":
            names = sorted(set(speakers))
            ratios = {"train": 1 - share, "val": share}
            own = {names[i] for i in stable_split(names, ratios, split, seed=seed)}
            rows = np.flatnonzero([speaker in own for speaker in speakers])
        ends = np.cumsum(lengths)
        self.features = [features[ends[i] - lengths[i] : ends[i]] for i in rows]
        self.lengths = lengths[rows]
        self.texts, self.speakers = [texts[i] for i in rows], [speakers[i] for i in rows]
        self.names = [ids[i] for i in rows]

    def __len__(self) -> int:
        return len(self.texts)

    def __getitem__(self, index: int) -> Sample:
        return {"features": self.features[index], "text": self.texts[index], "speaker": self.speakers[index]}

    def path_of(self, index: int) -> str:
        return f"{self.file}:{self.names[index]}"

    @property
    def fingerprint(self) -> str:
        return digest(type(self).__name__, *self.names, *self.texts, self.lengths)

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn:
        return StandIn({"path": str(standin.write_cepstra(folder))}, "spoken digits, one behind the other, as cepstra")


def _read(path: Path, split: str) -> tuple[np.ndarray, np.ndarray, list[str], list[str]]:
    """Features, lengths, texts and ids of an official split."""
    try:
        with np.load(path, allow_pickle=False) as data:
            features, lengths, texts, ids = (data[f"{split}_{name}"] for name in NAMES)
    except (OSError, ValueError, KeyError) as error:
        advice = f"an *.npz with {', '.join(f'{split}_{name}' for name in NAMES)} is expected"
        raise fault(path, f"it cannot be read: {error}", advice) from error
    n = len(texts)
    if features.ndim != 2 or lengths.shape != (n,) or ids.shape != (n,) or lengths.sum() != len(features) or n == 0:
        shapes = f"{split}_feat {features.shape}, _len {lengths.shape}, sum {lengths.sum()}, _text {n}, _id {ids.shape}"
        raise DataError(f"{path}: {shapes} do not fit together; the lengths must sum to the frames")
    return features.astype(np.float32), lengths.astype(np.int64), [str(x) for x in texts], [str(x) for x in ids]
