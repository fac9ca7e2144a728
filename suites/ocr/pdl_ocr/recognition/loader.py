"""From lines of text to batches: images of like width together, and their texts as numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from pdl.data import Batch, BucketBatchSampler, ConcatDataset, DataLoader, Dataset, Sample, Subset, Transform
from pdl.data.collating import collate
from pdl.data.pipeline import Compose
from pdl.data.randomness import SampleRandom
from pdl.data.sampler import BatchSampler, SequentialSampler
from pdl.data.transforms import PadTo, ResizeHeight
from pdl.errors import ConfigError, UsageError
from pdl.runtime.images import is_tall, sideways
from pdl.train.recipe import Data

SEVERAL = 3  # characters
LABELS = 8  # lengths of texts in a batch are multiples of, as a program is compiled for each


class Widths:
    """The widths, after the transforms, of images with given proportions."""

    def __init__(self, transforms: Sequence[Transform]) -> None:
        found = [[each for each in transforms if isinstance(each, kind)] for kind in (ResizeHeight, PadTo)]
        if [len(each) for each in found] != [1, 1]:
            raise ConfigError(
                "data.transforms: lines are read at one height and at a few widths: give pdl.data.transforms "
                "ResizeHeight and, behind Normalize, PadTo once each, for training and for evaluation"
            )
        self.resize: Any = found[0][0]
        self.pad: Any = found[1][0]

    def of(self, ratios: np.ndarray) -> np.ndarray:
        """int64 [N]: the widths of images whose width is `ratios` [N] times their height."""
        inner = np.clip(np.ceil(self.resize.height * ratios), 1, self.resize.width)
        return np.array([self.pad.padded(self.resize.height, int(width))[1] for width in inner], np.int64)


def texts_of(dataset: Dataset) -> list[str]:
    """The texts of a data set's lines; the images are not read where the data set knows them without."""
    if isinstance(dataset, Subset):
        texts = texts_of(dataset.dataset)
        return [texts[row] for row in dataset.indices.tolist()]
    if isinstance(dataset, ConcatDataset):
        return [text for each in dataset.datasets for text in texts_of(each)]
    known = getattr(dataset, "texts", None)
    return list(known) if known is not None else [_field(dataset, i, "text") for i in range(len(dataset))]


def ratios_of(dataset: Dataset) -> np.ndarray:
    """float64 [N]: width / height of a data set's images, which are not read where the data set knows them without."""
    if isinstance(dataset, Subset):
        return ratios_of(dataset.dataset)[dataset.indices]
    if isinstance(dataset, ConcatDataset):
        return np.concatenate([ratios_of(each) for each in dataset.datasets])
    known = getattr(dataset, "widths", None)
    if known is not None:
        return np.asarray(known, np.float64)
    shapes = (_field(dataset, i, "image").shape for i in range(len(dataset)))
    return np.array([shape[1] / shape[0] for shape in shapes], np.float64)


def standing(dataset: Dataset, tall: float | None) -> np.ndarray:
    """bool [N]: the lines that do not run from left to right: at least `tall` times as high as wide, with three
    characters or more; none where it is None."""
    if tall is None:
        return np.zeros(len(dataset), bool)
    several = np.array([len(text) >= SEVERAL for text in texts_of(dataset)], bool)
    return several & (ratios_of(dataset) * tall <= 1)


def _field(dataset: Dataset, index: int, name: str) -> Any:
    sample = dataset[index]
    if name not in sample:
        raise UsageError(
            f"{type(dataset).__name__}: sample {index} has no {name!r}; expected {{'image', 'text'}}, as of "
            "pdl_ocr.data.TextLines"
        )
    return sample[name]


@dataclass(frozen=True)
class WithViews(Transform):
    """The transforms of evaluation; a line that is at least `tall` times as high as wide has "turned", too: what they
    make of the line turned by 90 degrees to the left, and to the right."""

    transforms: Sequence[Transform]
    tall: float
    internal: ClassVar[bool] = True

    def __call__(self, sample: Sample, rng: SampleRandom) -> Sample:
        image, prepare = sample["image"], Compose(self.transforms)
        done = prepare(sample, rng)
        if not is_tall(image, self.tall):
            return done
        return {**done, "turned": [prepare({"image": view}, rng)["image"] for view in sideways(image)]}


class Labelled(Dataset):
    """The lines `rows` of a data set with their texts as numbers: {"image", "text", "labels" int64 [U]}."""

    def __init__(self, dataset: Dataset, rows: np.ndarray, encode: Callable[[str], np.ndarray]) -> None:
        self.dataset, self.rows, self.encode = dataset, rows, encode

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> Sample:
        sample = self.dataset[int(self.rows[index])]
        return {"image": sample["image"], "text": sample["text"], "labels": self.encode(sample["text"])}

    def path_of(self, index: int) -> str | None:
        return self.dataset.path_of(int(self.rows[index]))

    def fault_of(self, index: int) -> Any:
        return self.dataset.fault_of(int(self.rows[index]))

    @property
    def fingerprint(self) -> str:
        return Subset(self.dataset, self.rows).fingerprint


class SameWidth(BatchSampler):
    """Batches of images of exactly one width, in order of widths and numbers, so that a line is read as it is alone."""

    def __init__(self, widths: np.ndarray, batch_size: int) -> None:
        super().__init__(SequentialSampler(len(widths)), batch_size)
        order = np.argsort(widths, kind="stable")
        groups = np.split(order, np.flatnonzero(np.diff(widths[order])) + 1)
        self.made = [rows[i : i + batch_size] for rows in groups for i in range(0, len(rows), batch_size)]

    def __len__(self) -> int:
        return len(self.made)

    def batches(self, epoch: int) -> list[np.ndarray]:
        """The batches, alike in all epochs."""
        return self.made


def line_loader(
    lines: Labelled,
    widths: np.ndarray,
    data: Data,
    *,
    training: bool,
    seed: int,
    shortest_first: bool = False,
    tall: float | None = None,
) -> DataLoader:
    """Batches {"image" [N, H, W, C], "labels" int64 [N, U], "lengths" int64 [N], "text", "index"}; `widths` int64 [N]
    are those of the images after the transforms. In training in a new order each epoch, with `shortest_first` in the
    first one from narrow images to wide ones; an image that distortions made wider makes its batch wider. In
    evaluation "turned" has the views of those that are `tall` (`WithViews`), by their rows: {row: [images]}."""
    if training and data.sampler(lines, seed=seed) is not None:
        raise ConfigError("data.balanced: lines have no classes that could be drawn alike; leave it out")
    size, transforms = data.size(training=training), data.transforms(training=training)
    sampler: BatchSampler = SameWidth(widths, size)
    if training and len(lines):
        first = int(shortest_first)
        sampler = BucketBatchSampler(widths, size, np.unique(widths), shuffle=True, sorted_epochs=first, seed=seed)
    pad = Widths(transforms).pad
    if tall is not None and not training:
        transforms = [WithViews(transforms, tall)]
    return DataLoader(
        lines,
        sampler=sampler,
        transforms=transforms,
        seed=seed,
        workers=data.workers,
        prefetch=data.prefetch,
        on_error=data.on_error,
        collate=lambda samples: batched(samples, pad.fill),
    )


def batched(samples: Sequence[Sample], fill: float) -> Batch:
    """One batch; narrower images are filled up on the right, texts behind their end with -1."""
    width = max(sample["image"].shape[1] for sample in samples)
    longest = max(len(sample["labels"]) for sample in samples)
    labels = np.full((len(samples), -(-max(longest, 1) // LABELS) * LABELS), -1, np.int64)
    images = []
    for row, sample in zip(labels, samples, strict=True):
        row[: len(sample["labels"])] = sample["labels"]
        image = sample["image"]
        more = ((0, 0), (0, width - image.shape[1]), (0, 0))
        images.append(image if image.shape[1] == width else np.pad(image, more, constant_values=fill))
    rest = collate([{name: sample[name] for name in ("text", "index")} for sample in samples])
    turned = {row: sample["turned"] for row, sample in enumerate(samples) if "turned" in sample}
    return {
        "image": np.stack(images), "labels": labels, "lengths": (labels >= 0).sum(axis=1), **rest, "turned": turned,
    }  # fmt: skip
