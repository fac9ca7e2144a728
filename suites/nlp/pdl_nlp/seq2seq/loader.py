"""From pairs of texts to batches of numbers, pairs of about one length together."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from pdl.data import Batch, SampleRandom, Transform
from pdl.data.randomness import BatchRandom
from pdl.dtype import Array
from pdl.errors import DataError
from pdl_nlp.loader import ByLength
from pdl_nlp.tokenizers import Tokenizer
from pdl_nlp.tokenizers.bpe import ByteLevelBPE


class Translations(ByLength):
    """Texts and what is to be written for each as numbers: sample i is {"tokens" int64 [T]: the text and the token for
    its end, "given" int64 [T]: the token for a beginning and the target, "labels" int64 [T]: the target and the token
    for its end, -1 behind it}. Both texts are cut to `max_length` tokens, these included.

    Where they are to be written (`beams` above 0) also the "text" and the "target" themselves, and "beams".

    dropout   the share of a `ByteLevelBPE`'s merges that is left out, others in each epoch, a function of (seed, epoch)
    """

    def __init__(
        self,
        dataset: Any,
        tokenizer: Tokenizer,
        max_length: int,
        *,
        beams: int = 0,
        dropout: float = 0.0,
        seed: int = 0,
    ) -> None:
        self.dataset, self.tokenizer, self.max_length, self.beams = dataset, tokenizer, max_length, beams
        self.dropout, self.seed, self.epoch = dropout, seed, 0
        texts, targets = both(dataset)
        self.texts, self.targets = np.empty((2, len(texts)), object)
        self.texts[:], self.targets[:] = texts, targets
        self._measure(self._number(), max_length, None)
        if dropout:  # in another epoch a text may be longer than in this one
            self.sizes = np.unique(np.append(self.sizes, max_length))

    def set_epoch(self, epoch: int) -> None:
        """Leave out the merges of this epoch."""
        if self.dropout and epoch != self.epoch:
            self.epoch = epoch
            self.lengths = self._number()

    def lengths_in(self, epoch: int) -> Array:
        self.set_epoch(epoch)
        return self.lengths

    def _number(self) -> Array:
        """Make the numbers of all texts; the tokens of each, int64 [N]."""
        begin, end, pad = marks(self.tokenizer)
        columns, rows = (self.texts.tolist(), self.targets.tolist()), range(len(self.texts))
        if self.dropout:
            assert isinstance(self.tokenizer, ByteLevelBPE)
            rng = BatchRandom(self.seed, self.epoch, rows)
            made = [self.tokenizer.encode_dropping(column, self.dropout, rng.bits()) for column in columns]
        else:
            made = [self.tokenizer.encode_many(column) for column in columns]
        source, wanted = ([side.text(row).ids[: self.max_length - 1] for row in rows] for side in made)
        parts: dict[str, list[Array]] = {
            "tokens": [np.append(text, end) for text in source],
            "given": [np.append(begin, target) for target in wanted],
            "labels": [np.append(target, end) for target in wanted],
        }
        behind = {"tokens": pad, "given": pad, "labels": -1}
        self.sides = {}
        for name, each in parts.items():
            counts = np.array([len(row) for row in each])
            ids = np.concatenate([*each, [behind[name]]]).astype(np.int64)
            self.sides[name] = ids, np.concatenate([[0], np.cumsum(counts)])[:-1], counts
        return np.maximum(self.sides["tokens"][2], self.sides["labels"][2])

    def get_batch(self, indices: np.ndarray) -> Batch:
        made = {name: ids[self._at(indices, starts, counts)] for name, (ids, starts, counts) in self.sides.items()}
        if not self.beams:
            return made
        texts = {"text": self.texts[indices], "target": self.targets[indices]}
        return {**made, **texts, "beams": np.full(len(indices), self.beams)}


@dataclass(frozen=True)
class Noise(Transform):
    """Each token of "given" int64 [N, T], but those before which nothing stands and the special ones, is replaced with
    probability `share` by one of `ordinary` int64 [V], drawn evenly: noise-aware generation (Xiao et al., arXiv
    2001.11314), which prepares a net for what it wrote wrong itself. What is to be written stays right.
    """

    share: float
    ordinary: Array

    def __call__(self, sample: Any, rng: SampleRandom) -> Any:
        return {**sample, "given": self._noisy(sample["given"], rng.generator())}

    def batch(self, samples: Batch, rngs: BatchRandom) -> Batch:
        """The same of many samples."""
        rows = [self._noisy(row, rngs[number].generator()) for number, row in enumerate(samples["given"])]
        return {**samples, "given": np.stack(rows)}

    def _noisy(self, given: Array, rng: np.random.Generator) -> Array:
        others = self.ordinary[rng.integers(len(self.ordinary), size=len(given))]
        return np.where((rng.random(len(given)) < self.share) & np.isin(given, self.ordinary), others, given)


def both(dataset: Any) -> tuple[list[str], list[str]]:
    """What is read and what is to be written; DataError for a data set without that."""
    samples = [dataset[index] for index in range(len(dataset))]
    if not samples or "target" not in samples[0]:
        raise DataError("this task needs texts with what is to be written for them; take pdl_nlp.data.ParallelText")
    return [sample["text"] for sample in samples], [sample["target"] for sample in samples]


def marks(tokenizer: Tokenizer) -> tuple[int, int, int]:
    """The tokens for the beginning and the end of what is written, and that for padding; DataError where some lack."""
    found = tokenizer.cls, tokenizer.sep, tokenizer.pad
    if None in found:
        raise DataError("task.tokenizer: it needs tokens for cls (a beginning), sep (an end) and pad; see `pdl vocab`")
    return found  # type: ignore[return-value]
