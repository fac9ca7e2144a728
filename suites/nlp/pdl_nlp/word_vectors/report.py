"""What the report says of vectors of words: frequent words and those nearest to them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.report import Section, table
from pdl.train import Evaluation, Reporter
from pdl_nlp.vectors import table_of

if TYPE_CHECKING:
    from pdl_nlp.word_vectors.task import WordVectors

SHOWN, NEAREST, AMONG = 24, 6, 1000


class WordVectorsReporter(Reporter):
    """Words, and the nearest to each."""

    task: WordVectors

    def sections(self, evaluation: Evaluation, dataset: Any) -> list[Section]:
        task = self.task
        if task.evaluated is None:
            return []
        tokens = task.tokenizer.tokens
        vectors = table_of(task.evaluated, tokens, task.speller)
        vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
        # the most frequent ones are articles and signs; those behind them say more
        most = min(AMONG, len(tokens))
        chosen = np.unique(np.linspace(min(2 + most // 10, len(tokens) - 1), most - 1, SHOWN).astype(int))
        scores = vectors[chosen] @ vectors.T
        scores[:, :2], scores[np.arange(len(chosen)), chosen] = -2, -2
        best = np.argsort(-scores, axis=1, kind="stable")[:, :NEAREST]
        rows = [
            [tokens[word], ", ".join(f"{tokens[i]} {score[i]:.2f}" for i in near)]
            for word, near, score in zip(chosen, best, scores, strict=True)
        ]
        return [Section("Words and the nearest to them", table(rows, head=["word", "nearest, with the cosine"]))]
