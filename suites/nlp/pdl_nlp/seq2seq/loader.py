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


class Translations(ByLength):
    """Texts and what is to be written for each as numbers: sample i is {"tokens" int64 [T]: the text and the token for
    its end, "given" int64 [T]: the token for a beginning and the target, "labels" int64 [T]: the target and the token
    for its end, -1 behind it}. Both texts are cut to `max_length` tokens, these included.

    Where they are to be written (`beams` above 0) also the "text" and the "target" themselves, and "beams".
    """

    def __init__(self, dataset: Any, tokenizer: Tokenizer, max_length: int, *, beams: int = 0) -> None:
        self.dataset, self.beams = dataset, beams
        begin, end, pad = marks(tokenizer)
        texts, targets = both(dataset)
        source, wanted = (tokenizer.encode_many(column) for column in (texts, targets))
        rows = [(source.text(row).ids[: max_length - 1], wanted.text(row).ids[: max_length - 1])
                for row in range(len(texts))]  # fmt: skip
        parts: dict[str, list[np.ndarray]] = {
            "tokens": [np.append(text, end) for text, _ in rows],
            "given": [np.append(begin, target) for _, target in rows],
            "labels": [np.append(target, end) for _, target in rows],
        }
        behind = {"tokens": pad, "given": pad, "labels": -1}
        self.sides = {}
        for name, each in parts.items():
            counts = np.array([len(row) for row in each])
            ids = np.concatenate([*each, [behind[name]]]).astype(np.int64)
            self.sides[name] = ids, np.concatenate([[0], np.cumsum(counts)])[:-1], counts
        self.texts, self.targets = np.empty((2, len(texts)), object)
        self.texts[:], self.targets[:] = texts, targets
        longest = np.maximum(self.sides["tokens"][2], self.sides["labels"][2])
        self._measure(longest, max_length, None)

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
