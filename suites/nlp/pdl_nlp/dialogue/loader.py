"""From dialogues to batches of turns with their replies, and the candidates that a reply is found among."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from pdl.data import Batch, Dataset
from pdl.dtype import Array
from pdl.errors import DataError
from pdl_nlp.loader import ByLength
from pdl_nlp.steps.turns import spoken
from pdl_nlp.tokenizers import Tokenizer

SIDES = ("tokens", "reply")


def turns_of(dataset: Any) -> list[list[str]]:
    """The turns of each dialogue of a data set or a stream; DataError where it has none."""
    samples = (dataset[i] for i in range(len(dataset))) if isinstance(dataset, Dataset) else dataset
    found = []
    for sample in samples:
        if "turns" not in sample:
            raise DataError(f"dialogues have turns; this data has {', '.join(sample)}: use pdl_nlp.data.DialogueFile")
        found.append(list(sample["turns"]))
    return found


def replies_of(dialogues: Iterable[Sequence[str]], context: int) -> tuple[list[list[str]], list[str]]:
    """Each turn behind the first of a dialogue is a reply: what was said before it, the last `context` turns, and the
    reply."""
    before, replies = list[list[str]](), list[str]()
    for turns in dialogues:
        for at in range(1, len(turns)):
            before.append(list(turns[max(0, at - context) : at]))
            replies.append(turns[at])
    return before, replies


class Exchanges(ByLength):
    """Turns and replies as numbers: sample i is {"tokens", "tokens_segments" int64 [T], "reply", "reply_segments" int64
    [S], "index", "text": int64, the same of replies of one text}. Both are as `pdl_nlp.steps.turns.spoken` has them,
    padding behind the last token.

    before, replies  as `replies_of` gives them
    """

    def __init__(
        self,
        before: Sequence[Sequence[str]],
        replies: Sequence[str],
        tokenizer: Tokenizer,
        max_length: int,
        sizes: Sequence[int] | None = None,
    ) -> None:
        if not len(replies):
            raise DataError("no dialogue has two turns, so there is no reply to learn from")
        self.before, self.replies, self.most = before, replies, max_length
        self.texts = np.unique(np.array(replies), return_inverse=True)[1]
        made = (
            [spoken(tokenizer, turns, max_length) for turns in before],
            [spoken(tokenizer, [reply], max_length, reply=True) for reply in replies],
        )
        self.sides = {}
        for name, each in zip(SIDES, made, strict=True):
            starts = np.cumsum([0, *(len(one.segments) for one in each)])
            ids = np.concatenate([*(one.encoding.ids for one in each), [tokenizer.pad or 0]]).astype(np.int64)
            kinds = np.concatenate([*(one.segments for one in each), [0]]).astype(np.int64)
            self.sides[name] = ids, kinds, starts, np.diff(starts)
        self._measure(self.sides["tokens"][3], max_length, sizes)

    def get_batch(self, indices: np.ndarray) -> Batch:
        """Some of them; replies are as long as the next of 8, 16, 32, ... tokens, or as `max_length`."""
        found: Batch = {"index": np.asarray(indices), "text": self.texts[indices]}
        for name, (ids, kinds, starts, counts) in self.sides.items():
            if name == "reply":
                width = min(max(8, 1 << (int(counts[indices].max()) - 1).bit_length()), self.most)
                at = np.arange(width)
                at = np.where(at < counts[indices][:, None], starts[indices][:, None] + at, -1)
            else:
                at = self._at(indices, starts, counts)
            found |= {name: ids[at], f"{name}_segments": kinds[at]}
        return found

    def path_of(self, index: int) -> str | None:
        return None


def candidates(replies: Sequence[Any], count: int, seed: int) -> Array:
    """int64 [N, count]: for each of N samples the numbers of the replies that are ranked, its own first. The others are
    drawn from the replies of all samples, each text once and none with that of its own reply; fewer where there are not
    as many texts. A function of the replies in their order (texts, or a number for each text), and `seed`."""
    names = {name: number for number, name in enumerate(dict.fromkeys(replies))}
    numbers, count = [names[reply] for reply in replies], min(count, len(names))
    rng, found = np.random.default_rng(seed), np.zeros((len(replies), count), np.int64)
    for row, own in enumerate(numbers):
        chosen = {own: row}
        while len(chosen) < count:
            for other in rng.integers(0, len(replies), 2 * count).tolist():
                if len(chosen) < count:
                    chosen.setdefault(numbers[other], other)
        found[row] = list(chosen.values())
    return found
