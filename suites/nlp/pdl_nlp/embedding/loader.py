"""From pairs of texts to batches of numbers, pairs of about one length together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pdl.data import Batch
from pdl.data.faults import fault
from pdl.dtype import Array
from pdl.errors import DataError
from pdl_nlp.loader import ByLength
from pdl_nlp.tokenizers import Tokenizer


class Pairs(ByLength):
    """Pairs of texts as numbers: sample i is {"tokens" int64 [T], "pair" int64 [T], "score" float32}; both as long as
    the next of `sizes`, padding behind the last token.

    positive  pairs with a lower score are left out; None: none are
    """

    def __init__(
        self,
        dataset: Any,
        tokenizer: Tokenizer,
        max_length: int,
        sizes: Sequence[int] | None = None,
        positive: float | None = None,
    ) -> None:
        self.dataset, self.classes = dataset, dataset.classes
        texts, pairs, scores = columns(dataset)
        self.kept = np.arange(len(scores)) if positive is None else np.flatnonzero(scores >= positive)
        if not len(self.kept):
            raise DataError(f"no pair has a score of {positive:g} or more; lower task.positive")
        self.scores = scores[self.kept].astype(np.float32)
        self.pad = tokenizer.pad or 0
        self.sides = []
        for column in (texts, pairs):
            made = tokenizer.framed([column[row] for row in self.kept.tolist()], max_length=max_length)
            self.sides.append((np.append(made.ids, self.pad).astype(np.int64), made.starts))
        self.counts = np.stack([np.diff(starts) for _, starts in self.sides])
        self._measure(self.counts.max(axis=0), max_length, sizes)

    def get_batch(self, indices: np.ndarray) -> Batch:
        """{"tokens", "pair" int64 [N, T], "score" float32 [N]}."""
        sides = zip(self.sides, self.counts, strict=True)
        found = [ids[self._at(indices, starts, counts)] for (ids, starts), counts in sides]
        return {"tokens": found[0], "pair": found[1], "score": self.scores[indices]}

    def path_of(self, index: int) -> str | None:
        return super().path_of(int(self.kept[index]))


def columns(dataset: Any) -> tuple[list[str], list[str], Array]:
    """First texts, second texts and scores float64 [N] of a data set; DataFault for what has no pairs, or a score that
    is no number."""
    samples = [dataset[index] for index in range(len(dataset))]
    if not samples or "pair" not in samples[0]:
        raise DataError("embedding needs pairs of texts: name the column of the second ones (pair=)")
    numbers = np.zeros(len(dataset.classes))
    for place, name in enumerate(dataset.classes):
        try:
            numbers[place] = float(name)
        except ValueError:
            index = next(i for i, sample in enumerate(samples) if int(sample["label"]) == place)
            raise fault(
                dataset.path_of(index),
                f"score {name!r} is no number",
                "correct it, or name the column (label=)",
                index=index,
            ) from None
    scores = numbers[[int(sample["label"]) for sample in samples]]
    return [sample["text"] for sample in samples], [sample["pair"] for sample in samples], scores
