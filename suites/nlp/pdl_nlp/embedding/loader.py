"""From pairs of texts to batches of numbers, pairs of about one length together."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pdl.data import Batch
from pdl.errors import DataError
from pdl_nlp.loader import ByPair, pairs_of, scores_of
from pdl_nlp.tokenizers import Tokenizer


class Pairs(ByPair):
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
        (texts, pairs), scores = pairs_of(dataset), scores_of(dataset)
        self.kept = np.arange(len(scores)) if positive is None else np.flatnonzero(scores >= positive)
        if not len(self.kept):
            raise DataError(f"no pair has a score of {positive:g} or more; lower task.positive")
        self.scores = scores[self.kept].astype(np.float32)
        texts, pairs = ([column[row] for row in self.kept.tolist()] for column in (texts, pairs))
        self._number(texts, pairs, tokenizer, max_length, sizes)

    def get_batch(self, indices: np.ndarray) -> Batch:
        """{"tokens", "pair" int64 [N, T], "score" float32 [N], "index" int64 [N]: which sample of the data each is}."""
        return {**super().get_batch(indices), "score": self.scores[indices], "index": self.kept[indices]}

    def path_of(self, index: int) -> str | None:
        return super().path_of(int(self.kept[index]))
