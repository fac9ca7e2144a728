"""From texts with mistakes to batches of numbers, texts of about one length together; and mistakes made up."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pdl.data import Batch
from pdl.dtype import Array
from pdl_nlp.loader import ByLength
from pdl_nlp.tokenizers import Tokenizer

Confusions = Mapping[str, tuple[list[str], Array]]
"""What a character is written as by mistake: other characters, and the probability of each."""


class Mistakes(ByLength):
    """Texts with mistakes as numbers: sample i is {"tokens" int64 [T], "right" int64 [T], -1 behind the last one}.

    pairs  wrong and right text of each
    """

    def __init__(
        self,
        dataset: Any,
        tokenizer: Tokenizer,
        max_length: int,
        pairs: Sequence[tuple[str, str]] | None = None,
    ) -> None:
        self.dataset = dataset
        pairs = pairs_of(dataset) if pairs is None else pairs
        made = tokenizer.encode_many([text for text, _ in pairs])
        known = {name: number for number, name in enumerate(tokenizer.tokens)}
        unknown = tokenizer.unknown or 0
        right = np.full(len(made.ids), unknown, np.int64)
        for (wrong, text), begin, end in zip(pairs, made.starts, made.starts[1:], strict=False):
            for at, (first, stop) in enumerate(made.offsets[begin:end].tolist(), begin):
                own = text[first:stop]
                right[at] = made.ids[at] if own == wrong[first:stop] else known.get(own, unknown)
        self.ids, self.right = np.append(made.ids, tokenizer.pad or 0).astype(np.int64), np.append(right, -1)
        self.starts, self.counts = made.starts[:-1], np.minimum(np.diff(made.starts), max_length)
        self._measure(self.counts, max_length, None)

    def get_batch(self, indices: np.ndarray) -> Batch:
        at = self._at(indices, self.starts, self.counts)
        return {"tokens": self.ids[at], "right": self.right[at]}

    def path_of(self, index: int) -> str | None:
        return super().path_of(index % len(self.dataset))


def pairs_of(dataset: Any) -> list[tuple[str, str]]:
    """Wrong and right text of each sample."""
    return [(sample["text"], sample["right"]) for sample in (dataset[index] for index in range(len(dataset)))]


def confusions_of(pairs: Sequence[tuple[str, str]]) -> Confusions:
    """What each character is written as by mistake in these texts."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for text, right in pairs:
        for wrong, own in zip(text, right, strict=True):
            if wrong != own:
                counts[own][wrong] += 1
    return {own: (list(each), np.array(list(each.values())) / each.total()) for own, each in counts.items()}


def with_noise(pairs: Sequence[tuple[str, str]], copies: int, rate: float, seed: int) -> list[tuple[str, str]]:
    """The pairs; each right text once without a mistake; and `copies` of it in which this share of the characters that
    are ever mistaken are so, at random, as often for each other as in the pairs."""
    known, rng = confusions_of(pairs), np.random.default_rng(seed)
    made = [*pairs, *((right, right) for _, right in pairs)]
    for _ in range(copies):
        for _, right in pairs:
            letters = list(right)
            for at in np.flatnonzero(rng.random(len(letters)) < rate).tolist():
                if letters[at] in known:
                    others, p = known[letters[at]]
                    letters[at] = others[int(rng.choice(len(others), p=p))]
            made.append(("".join(letters), right))
    return made
