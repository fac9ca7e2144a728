"""From tagged sentences to batches of numbers, sentences of about one length together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pdl.data import Batch, Sample
from pdl.errors import DataError
from pdl.vocabulary import Vocabulary
from pdl_nlp.loader import ByLength
from pdl_nlp.schemes import Scheme, segmented
from pdl_nlp.steps.letters import Letters


def pieces(sample: Sample, classes: Sequence[str], segment: Scheme | None) -> tuple[list[str], list[str]]:
    """The tokens of a sentence and their tags by name; with `segment` the characters of its words, whose tags say in
    that scheme where words begin and end."""
    words, names = sample["tokens"], [classes[number] for number in sample["tags"].tolist()]
    if segment is None:
        return words, names
    return list("".join(words)), segmented([len(word) for word in words], names, segment)


class Tagged(ByLength):
    """The sentences of a data set as numbers: sample i is {"tokens": int64 [T], "tags": int64 [T], -1 behind the last
    one, "length": int64} and, with `letters`, "letters" int64 [T, L]; batches are as long as the next of `sizes`.

    vocabulary  tokens by number
    classes     the tags by number
    unknown     the number of a token that the vocabulary lacks
    lower       whether tokens are lowered first, as the tokenizer does
    max_length  tokens of a sentence that count, from its beginning
    segment     the scheme of words that are to be found; None where tokens are given
    sizes       ascending lengths that batches may have; by default those with little padding (`pdl.data.bucket_sizes`)
    """

    def __init__(
        self,
        dataset: Any,
        vocabulary: Vocabulary,
        classes: Sequence[str],
        *,
        lower: bool,
        max_length: int,
        unknown: int = 1,
        segment: Scheme | None = None,
        letters: Letters | None = None,
        sizes: Sequence[int] | None = None,
    ) -> None:
        self.dataset, self.classes = dataset, classes
        numbers = {name: number for number, name in enumerate(classes)}
        found: list[str] = []
        tags: list[int] = []
        starts = [0]
        for index in range(len(dataset)):
            tokens, names = pieces(dataset[index], dataset.classes, segment)
            if other := next((name for name in names if name not in numbers), None):
                raise DataError(f"sentence {index} has the tag {other!r}, which is none of the task's; see its classes")
            found += tokens
            tags += [numbers[name] for name in names]
            starts.append(len(found))
        ids = vocabulary.encode([lowered(token) for token in found] if lower else found) - 1
        self.ids = np.append(np.where(ids < 0, unknown, ids), 0).astype(np.int64)
        self.tags, self.starts = np.append(tags, -1).astype(np.int64), np.array(starts)
        self.letters = None
        if letters is not None:
            self.letters = np.concatenate([letters.encode(found), np.zeros((1, letters.width), np.int64)])
        self.counts = np.minimum(np.diff(self.starts), max_length)
        self._measure(self.counts, max_length, sizes)

    def get_batch(self, indices: np.ndarray) -> Batch:
        """{"tokens" int64 [N, T], "tags" int64 [N, T], "length" int64 [N]} and "letters" int64 [N, T, L]."""
        at = self._at(indices, self.starts, self.counts)
        more = {} if self.letters is None else {"letters": self.letters[at]}
        return {"tokens": self.ids[at], "tags": self.tags[at], "length": self.counts[indices], **more}


def lowered(token: str) -> str:
    """A token as `Characters` and `Words` lower it: letters that have one small letter, whole words."""
    low = token.lower()
    return low if len(token) > 1 or len(low) == 1 else token
