"""From texts to windows of tokens, each with the token behind it as its target."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Any

import numpy as np

from pdl.data import Batch, Dataset, Sample
from pdl.data.dataset import digest
from pdl.data.randomness import SampleRandom
from pdl.dtype import Array
from pdl.errors import DataError
from pdl_nlp.tokenizers import Tokenizer

BLOCK = 256  # texts that are tokenised together


def texts_of(dataset: Iterable[Any]) -> Iterator[str]:
    """The texts of a data set or a stream."""
    for sample in dataset if not isinstance(dataset, Dataset) else (dataset[i] for i in range(len(dataset))):
        if "text" not in sample:
            raise DataError(f"a language model needs texts; this data has {', '.join(sample)}: use pdl_nlp.data.Corpus")
        yield str(sample["text"])


def numbered(texts: Iterable[str], tokenizer: Tokenizer, end: int | None) -> tuple[Array, int]:
    """int32 [M]: the tokens of all texts, the number `end` between two; and how many characters the texts have."""
    found, characters, waiting = list[Array](), 0, iter(texts)
    while block := list(islice(waiting, BLOCK)):
        made = tokenizer.encode_many(block)
        characters += sum(map(len, block))
        ids = made.ids
        if end is not None:
            ids = np.insert(ids, made.starts[1:], np.int32(end))
        found.append(ids)
    ids = np.concatenate(found) if found else np.zeros(0, np.int32)
    return (ids[:-1] if end is not None else ids), characters


class Windows(Dataset):
    """Windows of `length` tokens of a text, and the token behind each: "tokens" int64 [N, length], "targets" int64 [N,
    length], -1 where none is asked for; "characters" float32 [N], for how many the targets stand on average. Tokens are
    held in memory, 4 bytes each.

    In training windows lie side by side, from a place on that is drawn for every epoch. Otherwise every token but the
    first is a target once: windows begin `stride` tokens after each other, and only targets that the window before
    lacks are asked for.

    ids         int32 [M], as `numbered` gives them
    characters  that they stand for
    """

    def __init__(
        self,
        ids: Array,
        characters: int,
        length: int,
        *,
        training: bool = False,
        stride: int | None = None,
        seed: int = 0,
    ) -> None:
        if len(ids) < 2:
            raise DataError("a text for a language model needs at least two tokens")
        self.ids, self.length, self.training, self.seed = ids, length, training, seed
        self.stride = length if training or stride is None else stride
        self.share = characters / len(ids)
        places = len(ids) - 1  # targets
        if training:
            self.count = max(1, (places - length + 1) // length)
        else:
            self.count = 1 + max(0, -(-(places - length) // self.stride))
        self.begin = 0

    def set_epoch(self, epoch: int) -> None:
        """Draw where the windows of an epoch begin."""
        room = len(self.ids) - 1 - self.count * self.length
        if self.training and room > 0:
            self.begin = SampleRandom(self.seed, epoch, 0).integers(0, min(room + 1, self.length))

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Sample:
        return {name: values[0] for name, values in self.get_batch(np.array([index])).items()}

    def get_batch(self, indices: np.ndarray) -> Batch:
        """Some windows."""
        starts = self.begin + np.asarray(indices) * self.stride
        at = starts[:, None] + np.arange(self.length)
        last = len(self.ids) - 1
        tokens = self.ids[np.minimum(at, last)].astype(np.int64)
        asked = at < last
        if self.stride < self.length:
            old = np.arange(self.length) < self.length - self.stride
            asked &= ~(old & (np.asarray(indices) > 0)[:, None])
        targets = np.where(asked, self.ids[np.minimum(at + 1, last)], -1).astype(np.int64)
        characters = (asked.sum(axis=1) * self.share).astype(np.float32)
        return {"tokens": tokens, "targets": targets, "characters": characters}

    @property
    def fingerprint(self) -> str:
        return digest(type(self).__name__, self.ids, np.array([self.length, self.stride]))
