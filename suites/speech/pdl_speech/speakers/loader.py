"""From recordings of speakers to batches: crops of one length for training, whole recordings otherwise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pdl.data import Batch, ClassBatchSampler, DataLoader, Dataset, Fault, Sample, digest, labels_of
from pdl.data.collating import collate
from pdl.data.faults import fault
from pdl.errors import ConfigError, UsageError
from pdl.files import read_bytes
from pdl.train.recipe import Data


class Voices(Dataset):
    """Samples {"audio", "label", "name"} of a data set: `name` is that of the file, or the number of the sample.

    numbers  of the speakers, by their label in the data set; by default the same
    """

    def __init__(self, dataset: Dataset, numbers: Mapping[int, int] | None = None) -> None:
        self.dataset = dataset
        self.classes = dataset.classes if numbers is None else ()
        own = labels_of(dataset, "task")
        self._labels = own if numbers is None else np.array([numbers[int(label)] for label in own], np.int64)

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Sample:
        audio = self.dataset[index]["audio"]
        return {"audio": audio, "label": int(self._labels[index]), "name": self.dataset.path_of(index) or str(index)}

    @property
    def labels(self) -> np.ndarray:
        return self._labels

    @property
    def fingerprint(self) -> str:
        return digest(type(self).__name__, self.dataset.fingerprint, self._labels)

    def path_of(self, index: int) -> str | None:
        return self.dataset.path_of(index)

    def fault_of(self, index: int) -> Fault | None:
        return self.dataset.fault_of(index)


def speakers_of(dataset: Dataset) -> list[str]:
    """The names of those who speak in a data set, in the order of its classes."""
    classes = dataset.classes
    return [classes[label] for label in np.unique(labels_of(dataset, "task")).tolist()]


def voice_loader(voices: Voices, data: Data, *, training: bool, seed: int, crops: int | None) -> DataLoader:
    """Batches {"audio" float32 [N, T], "label", "name", "index"}; where recordings of an evaluation have several
    lengths, "audio" is a list of N waveforms [T].

    crops  in training: so many of each speaker in a batch, one speaker after another; None: at random
    """
    sampler: Any = None
    if training:
        sampler = data.sampler(voices, seed=seed) if crops is None else grouped(voices, data, crops, seed)
    given = crops is not None and training
    return DataLoader(
        voices,
        batch_size=None if given else data.size(training=training),
        shuffle=training and sampler is None,
        sampler=sampler,
        transforms=data.transforms(training=training),
        seed=seed,
        workers=data.workers,
        prefetch=data.prefetch,
        drop_last=training and data.drop_last,
        on_error=data.on_error,
        cache=data.cache if training else 0,
        collate=of_one_length if training else of_any_length,
    )


def grouped(voices: Voices, data: Data, crops: int, seed: int) -> ClassBatchSampler:
    """Batches of `crops` samples of each speaker."""
    size, people = data.size(training=True), len(np.unique(voices.labels))
    problems = [
        (data.balanced, "data.balanced: these batches have as many crops of each speaker; leave it out"),
        (data.on_error != "error", "data.on_error=skip: a batch lacks no crop of its speakers; use error"),
        (size % crops != 0, f"data.batch_size={size} must be a multiple of task.crops={crops}"),
        (size < 2 * crops, f"data.batch_size={size}: the loss compares 2 speakers at least, {2 * crops} crops"),
    ]
    if found := [text for wrong, text in problems if wrong]:
        raise ConfigError(found)
    try:
        return ClassBatchSampler(voices.labels, classes=min(size // crops, people), samples=crops, seed=seed)
    except UsageError as error:
        raise ConfigError(
            f"task.crops={crops}: {error}; speakers with few recordings have more samples by "
            "pdl_speech.data.Speakers(pieces=...)"
        ) from error


def of_one_length(samples: Sequence[Sample]) -> Batch:
    """A batch of crops; ConfigError where they differ."""
    lengths = sorted({len(sample["audio"]) for sample in samples})
    if len(lengths) > 1:
        raise ConfigError(
            f"data.transforms.train: crops of {lengths[0]} to {lengths[-1]} samples make no batch; end with "
            "pdl_speech.data.transforms.PadOrCrop, random: true"
        )
    return collate(samples)


def of_any_length(samples: Sequence[Sample]) -> Batch:
    """A batch whose waveforms are a list where they differ in length."""
    if len({len(sample["audio"]) for sample in samples}) == 1:
        return collate(samples)
    rest = collate([{name: value for name, value in sample.items() if name != "audio"} for sample in samples])
    return {"audio": [sample["audio"] for sample in samples], **rest}


def read_trials(path: Path) -> list[tuple[bool, str, str]]:
    """(same speaker, recording, recording) of the lines "1 a.wav b.wav" of a file, as of VoxCeleb; DataError for
    others."""
    found = []
    for number, line in enumerate(read_bytes(path, 1 << 30).decode("utf-8-sig").splitlines(), 1):
        words = line.split()
        if not words:
            continue
        if len(words) != 3 or words[0] not in ("0", "1"):
            raise fault(path, f"{line!r:.60} is no trial", "write 1 or 0 (same speaker or not) and two recordings",
                        line=number)  # fmt: skip
        found.append((words[0] == "1", words[1], words[2]))
    if {same for same, _, _ in found} != {True, False}:
        raise fault(path, "it has no trials of both kinds", "write lines with 1, and lines with 0")
    return found
