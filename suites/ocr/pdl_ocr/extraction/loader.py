"""From pages to batches: characters and boxes of their pieces, and where the values of the fields are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pdl.data import Batch, DataLoader, IterableDataset, Sample
from pdl.data.pipeline import Transform
from pdl.data.randomness import SampleRandom
from pdl.errors import ConfigError, UsageError
from pdl.train.recipe import Data
from pdl_ocr.extraction.alignment import spans_of
from pdl_ocr.steps.fields import SCORES, PageText


def page_loader(
    dataset: Any,
    data: Data,
    *,
    training: bool,
    seed: int,
    fields: Sequence[str],
    numbers: Mapping[str, int],
    width: int,
    whole: bool,
) -> DataLoader:
    """Batches {"characters" int64 [N, P, C], "boxes" float32 [N, P, 4], "allowed" [N, P C + 1, 2], "targets" [N, P C +
    1, 3 F], "known" [N, F], "index"}, floats of 0 and 1: what a value can begin and end with, where the values do, and
    which of them are on their page. For evaluation also "page", the `PageText`s, and "fields", the values."""
    if training and data.sampler(dataset, seed=seed) is not None:
        raise ConfigError("data.balanced: pages have no classes that could be drawn alike; leave it out")
    return DataLoader(
        dataset,
        batch_size=data.size(training=training),
        shuffle=training and not isinstance(dataset, IterableDataset),
        transforms=[Aligned(tuple(fields), dict(numbers), width, whole), *data.transforms(training=training)],
        seed=seed,
        workers=data.workers,
        prefetch=data.prefetch,
        drop_last=training and data.drop_last,
        on_error=data.on_error,
        cache=data.cache if training else 0,
        collate=training_batch if training else evaluation_batch,
    )


@dataclass(frozen=True)
class Aligned(Transform):
    """A page as numbers, and where its values are: a field that is not on it has the last row for begin and end; one
    whose value is found nowhere is not known. "digits" int64 [10] are the numbers of 0 to 9."""

    fields: tuple[str, ...]
    numbers: Mapping[str, int]
    width: int
    whole: bool

    def __call__(self, sample: Sample, rng: SampleRandom) -> Sample:
        missing = [name for name in ("lines", "fields") if name not in sample]
        if missing:
            raise UsageError(f"sample {sample.get('index')} has no {missing[0]}; expected those of PageFields")
        page = PageText.of(sample["lines"], self.width)
        places, fields = page.places(), len(self.fields)
        allowed = np.append(page.edges(whole=self.whole), np.ones((2, 1), bool), axis=1)
        targets, known = np.zeros((len(SCORES), fields, allowed.shape[1]), bool), np.zeros(fields, bool)
        for f, name in enumerate(self.fields):
            value = sample["fields"].get(name, "")
            spans = [s for s in spans_of(value, page.lines) if s.first in places and s.last in places]
            known[f] = bool(spans) or not value
            targets[:2, f, -1] = not value
            for span in spans:
                first, last = places[span.first], places[span.last]
                allowed[0, first] = allowed[1, last] = True
                targets[0, f, first] = targets[1, f, last] = True
                targets[2, f, first : last + 1] = True
        return {
            "index": sample["index"],
            "page": page,
            "fields": sample["fields"],
            "characters": page.characters(self.numbers),
            "boxes": page.padded_boxes(),
            "allowed": allowed.T.astype(np.float32),
            "targets": targets.reshape(-1, allowed.shape[1]).T.astype(np.float32),
            "known": known.astype(np.float32),
            "digits": np.array([self.numbers.get(digit, 1) for digit in "0123456789"]),
        }

    def deployed(self) -> list[dict[str, Any]]:
        return []


def training_batch(samples: Sequence[Sample]) -> Batch:
    """The arrays, filled up to the largest page."""
    rows = max(len(sample["characters"]) for sample in samples)
    made: Batch = {"index": np.array([sample["index"] for sample in samples])}
    made["known"] = np.stack([sample["known"] for sample in samples])
    for name in ("characters", "boxes"):
        made[name] = np.stack([_filled(sample[name], rows - len(sample[name])) for sample in samples])
    for name in ("allowed", "targets"):
        size = rows * samples[0]["page"].width + 1
        made[name] = np.stack([_widened(sample[name], size) for sample in samples])
    return made


def evaluation_batch(samples: Sequence[Sample]) -> Batch:
    """The same, with pages and fields."""
    return {**training_batch(samples), **{name: [each[name] for each in samples] for name in ("page", "fields")}}


def _filled(array: np.ndarray, rows: int) -> np.ndarray:
    return np.pad(array, ((0, rows), *[(0, 0)] * (array.ndim - 1)))


def _widened(array: np.ndarray, size: int) -> np.ndarray:
    """`array` [T + 1, ...] with its last row at `size` - 1."""
    return np.concatenate([_filled(array[:-1], size - len(array)), array[-1:]])


def own_logits(logits: np.ndarray, page: PageText) -> np.ndarray:
    """Those of a page [P C + 1, 3 F], out of those of a batch with larger ones."""
    return np.concatenate([logits[: page.rows * page.width], logits[-1:]])
