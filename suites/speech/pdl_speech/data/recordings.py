"""What data sets of recordings in files share."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import numpy as np

from pdl.data.dataset import ConcatDataset, Sample
from pdl.data.faults import Fault, fault, unreadable
from pdl.data.labelled import LabelledFiles, PerClass
from pdl.dtype import Array
from pdl.errors import DataError
from pdl.hints import Range
from pdl_speech.audio.files import AUDIO_FILES, audio_info, read_audio

Rate: TypeAlias = Annotated[int, Range(1_000, 384_000)]
REPAIR = "repair or remove the file"


class AudioFiles(LabelledFiles):
    """Recordings that are read from their files on access: sample i is {"audio": float32 [T], "label": int}, the mean
    of the channels. Recipes give

    rate       to which recordings are resampled (Hz); usually ${model.features.rate}
    per_class  only so many recordings of each class (of this split), drawn with `seed`
    """

    def __init__(
        self,
        root: Path,
        paths: Sequence[str],
        labels: Sequence[int] | np.ndarray,
        classes: Sequence[str],
        *,
        rate: Rate,
        per_class: PerClass = None,
        seed: Annotated[int, Range(0)] = 0,
    ) -> None:
        self.rate = rate
        super().__init__(root, paths, labels, classes, per_class=per_class, seed=seed)

    def __getitem__(self, index: int) -> Sample:
        return {"audio": read_recording(self.path_of(index), self.rate, index), "label": int(self._labels[index])}

    def fault_of(self, index: int) -> Fault | None:
        return fault_of(self.path_of(index), index)


def rate_of(dataset: Any) -> int:
    """Samples, or frames, a second of a data set, or of that which it is a part of."""
    while not hasattr(dataset, "rate"):
        dataset = dataset.datasets[0] if isinstance(dataset, ConcatDataset) else dataset.dataset
    return int(dataset.rate)


def recordings_in(folder: Path) -> list[Path]:
    """All recordings in a folder, at any depth, sorted; DataError where there are none."""
    found = sorted(file for file in folder.rglob("*") if file.suffix.lower() in AUDIO_FILES)
    if not found:
        raise DataError(f"{folder}: no recordings ({', '.join(AUDIO_FILES)}) in it; expected a folder of some")
    return found


def read_recording(path: str, rate: int, index: int) -> Array:
    """The recording in a file, float32 [T] at `rate`; DataFault where it cannot be read."""
    try:
        return read_audio(path, rate)[0]
    except OSError as error:
        raise unreadable(path, error, index=index) from error
    except DataError as error:
        raise fault(path, _without(path, error), REPAIR, index=index) from error


def fault_of(path: str, index: int) -> Fault | None:
    """What is wrong with the file of a recording, by its header."""
    try:
        info = audio_info(path)
    except OSError as error:
        return unreadable(path, error, index=index).fault
    except DataError as error:
        return Fault(path, index, _without(path, error), REPAIR)
    return None if info.frames else Fault(path, index, "it has no samples", REPAIR)


def _without(path: str, error: DataError) -> str:
    return str(error).removeprefix(f"{path}: ")
