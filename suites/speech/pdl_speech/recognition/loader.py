"""From sounds with texts to batches: those of like length together, and their texts as numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from pdl.data import Batch, BucketBatchSampler, ConcatDataset, DataLoader, Dataset, Few, Sample, Subset, bucket_sizes
from pdl.data.collating import collate
from pdl.dtype import Array
from pdl.errors import ConfigError, UsageError
from pdl.train.recipe import Data

SOUNDS = ("audio", "features")  # keys of a sample: a waveform, or what a front end made of it
LABELS = 8  # lengths of texts in a batch are multiples of
SIZES = 8  # lengths of sounds in batches at most, as a program is compiled for each
PADDING = 0.08  # share of filling for which there are fewer
PARTS = 8  # of the longest: sounds that a transform made longer are filled up to a multiple of one


def sound_of(sample: Sample) -> tuple[str, Array]:
    """The key and the value of a sample's sound."""
    key = next((key for key in SOUNDS if key in sample), None)
    if key is None or "text" not in sample:
        raise UsageError(f"a sample has {sorted(sample)}; expected {{'audio' or 'features', 'text'}}")
    return key, sample[key]


def known(dataset: Dataset, name: str, read: Callable[[Sample], Any]) -> list[Any]:
    """What a data set says of all its samples; where it says nothing, they are read."""
    if isinstance(dataset, Subset | Few | Labelled):
        rows: list[int] = (dataset.rows if isinstance(dataset, Labelled) else dataset.indices).tolist()
        found = known(dataset.dataset, name, read)
        return [found[row] for row in rows]
    if isinstance(dataset, ConcatDataset):
        return [value for each in dataset.datasets for value in known(each, name, read)]
    told = getattr(dataset, name, None)
    return list(told) if told is not None else [read(dataset[i]) for i in range(len(dataset))]


def texts_of(dataset: Dataset) -> list[str]:
    """The texts of a data set, whose sounds are not read where it knows them without (`texts`)."""
    return known(dataset, "texts", lambda sample: sample["text"])


def lengths_of(dataset: Dataset) -> Array:
    """int64 [N]: the samples, or frames, of its sounds, which are not read where it knows them without (`lengths`)."""
    return np.array(known(dataset, "lengths", lambda sample: len(sound_of(sample)[1])), np.int64)


def speakers_of(dataset: Dataset) -> list[str]:
    """Who speaks each sample; "" where that is not known."""
    return known(dataset, "speakers", lambda sample: str(sample.get("speaker", "")))


class Labelled(Dataset):
    """The sounds `rows` of a data set with their texts as numbers: {"audio" or "features", "text", "labels" int64
    [U]}."""

    def __init__(self, dataset: Dataset, rows: Array, encode: Callable[[str], Array]) -> None:
        self.dataset, self.rows, self.encode = dataset, rows, encode

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Sample:
        sample = self.dataset[int(self.rows[index])]
        key, sound = sound_of(sample)
        return {key: sound, "text": sample["text"], "labels": self.encode(sample["text"])}

    def path_of(self, index: int) -> str | None:
        return self.dataset.path_of(int(self.rows[index]))

    def fault_of(self, index: int) -> Any:
        return self.dataset.fault_of(int(self.rows[index]))

    @property
    def fingerprint(self) -> str:
        return Subset(self.dataset, self.rows).fingerprint


def sound_loader(
    sounds: Labelled, lengths: Array, longest: int, data: Data, *, training: bool, seed: int
) -> DataLoader:
    """Batches {"audio" [N, T] or [N, frames, channels], "samples" int64 [N], "labels" int64 [N, U], "lengths" int64
    [N], "text", "index"}, filled up with zeros to a few lengths; `lengths` int64 [N] are those of the sounds, `longest`
    that of the texts. In training in a new order each epoch, otherwise from short to long."""
    if training and data.sampler(sounds, seed=seed) is not None:
        raise ConfigError("data.balanced: texts are no classes that could be drawn alike; leave it out")
    sizes = bucket_sizes(lengths, padding=PADDING, most=SIZES)
    return DataLoader(
        sounds,
        sampler=BucketBatchSampler(lengths, data.size(training=training), sizes, shuffle=training, seed=seed),
        transforms=data.transforms(training=training),
        seed=seed,
        workers=data.workers,
        prefetch=data.prefetch,
        on_error=data.on_error,
        cache=data.cache if training else 0,
        collate=lambda samples: batched(samples, sizes, longest),
    )


def batched(samples: Sequence[Sample], sizes: Sequence[int], longest: int) -> Batch:
    """One batch: sounds filled up to the next of `sizes`, texts behind their end with -1."""
    sounds = [sound_of(sample)[1] for sample in samples]
    longest = max(1, longest, *(len(sample["labels"]) for sample in samples))
    labels = np.full((len(samples), -(-longest // LABELS) * LABELS), -1, np.int64)
    for i, sample in enumerate(samples):
        labels[i, : len(sample["labels"])] = sample["labels"]
    rest = collate([{name: sample[name] for name in ("text", "index")} for sample in samples])
    return {
        **filled(sounds, sizes),
        "labels": labels,
        "lengths": (labels >= 0).sum(axis=1),
        **rest,
    }


def filled(sounds: Sequence[Array], sizes: Sequence[int]) -> Batch:
    """{"audio": float32 [N, T, ...], "samples": int64 [N]}: sounds filled up with zeros to the next of `sizes`, and how
    long they are."""
    samples = np.array([len(sound) for sound in sounds], np.int64)
    most, step = int(samples.max()), max(1, sizes[-1] // PARTS)
    length = next((size for size in sizes if size >= most), -(-most // step) * step)
    batch = np.zeros((len(sounds), length, *sounds[0].shape[1:]), np.float32)
    for row, sound in zip(batch, sounds, strict=True):
        row[: len(sound)] = sound
    return {"audio": batch, "samples": samples}
