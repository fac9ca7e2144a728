"""From texts to batches of numbers, texts of about one length together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pdl.data import Batch
from pdl_nlp.loader import ByLength
from pdl_nlp.tokenizers import Tokenizer


class Tokens(ByLength):
    """The texts of a data set as numbers: sample i is {"tokens": int64 [T], "label"}; batches are as long as the next
    of `sizes`, padding behind the last token. All texts are tokenised once, at first.

    max_length  tokens of a text that count, from its beginning, special ones included
    sizes       ascending lengths that batches may have; by default those with little padding (`pdl.data.bucket_sizes`)
    """

    def __init__(self, dataset: Any, tokenizer: Tokenizer, max_length: int, sizes: Sequence[int] | None = None) -> None:
        self.dataset, self.classes = dataset, dataset.classes
        samples = [dataset[index] for index in range(len(dataset))]
        texts = [sample["text"] for sample in samples]
        made = tokenizer.framed(texts, max_length=max_length)
        self.ids, self.starts = np.append(made.ids, tokenizer.pad or 0).astype(np.int64), made.starts
        self.targets = np.array([sample["label"] for sample in samples])
        self.counts = np.diff(made.starts)
        self.whole = np.diff(tokenizer.framed(texts).starts)
        self.taught: np.ndarray | None = None
        """float32 [N, C]: logits of another net for each text, which batches then have as "taught"."""
        self._measure(self.counts, max_length, sizes)

    @property
    def labels(self) -> np.ndarray | None:
        return self.targets if self.targets.ndim == 1 else None

    def get_batch(self, indices: np.ndarray) -> Batch:
        """{"tokens" int64 [N, T], "label" int64 [N] or float32 [N, C]}."""
        at = self._at(indices, self.starts, self.counts)
        taught = {} if self.taught is None else {"taught": self.taught[indices]}
        return {"tokens": self.ids[at], "label": self.targets[indices], **taught}
