"""From recordings of speakers to batches: crops of one length for training, whole recordings otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from pdl.data import Batch, DataLoader, Sample
from pdl.data.collating import collate
from pdl.data.faults import fault
from pdl.errors import ConfigError
from pdl.files import read_bytes
from pdl.train.open_set import OpenSet, grouped
from pdl.train.recipe import Data

MORE = "speakers with few recordings have more samples by pdl_speech.data.Speakers(pieces=...)"


class Voices(OpenSet):
    """Samples {"audio", "label", "name"} of a data set."""

    def __getitem__(self, index: int) -> Sample:
        sample = super().__getitem__(index)
        return {name: sample[name] for name in ("audio", "label", "name")}


def voice_loader(voices: Voices, data: Data, *, training: bool, seed: int, crops: int | None) -> DataLoader:
    """Batches {"audio" float32 [N, T], "label", "name", "index"}; where recordings of an evaluation have several
    lengths, "audio" is a list of N waveforms [T].

    crops  in training: so many of each speaker in a batch, one speaker after another; None: at random
    """
    sampler: Any = None
    if training:
        sampler = data.sampler(voices, seed=seed)
        if crops is not None:
            sampler = grouped(voices.labels, data, crops, seed, key="task.crops", more=MORE)
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
