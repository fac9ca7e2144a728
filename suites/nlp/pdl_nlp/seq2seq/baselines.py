"""What a net that writes should beat: the text itself, and what was written for the most similar one of training."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.dtype import Array
from pdl.train.classical import Sparse, spread
from pdl_nlp.classification.baselines import tf_idf
from pdl_nlp.seq2seq.loader import both
from pdl_nlp.seq2seq.metrics import scored

if TYPE_CHECKING:
    from pdl_nlp.seq2seq.task import Seq2Seq

KNOWN = 100_000  # training texts that are compared with


def baselines(task: Seq2Seq, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
    """The text as it is; and the target of the training text with the highest cosine of TF-IDF (tokens, and pairs of
    neighbours)."""
    known, answers = both(datasets["train"])
    rows = spread(len(known), KNOWN).tolist()
    texts, targets = both(datasets[split])
    corpus, queries = tf_idf(task.tokenizer, [known[row] for row in rows], texts)
    made = {
        "the text itself": texts,
        "nearest text of training": [answers[rows[row]] for row in nearest(corpus, queries).tolist()],
    }
    tokens = task.scoring or "13a"
    return {name: {str(what): score for what, score in scored(each, targets, tokens).items()}
            for name, each in made.items()}  # fmt: skip


def nearest(corpus: Sparse, queries: Sparse) -> Array:
    """int64 [Q]: the row of `corpus` with the highest product with each query, of equal ones the first."""
    order = np.argsort(corpus.columns, kind="stable")
    rows, values = corpus.rows[order], corpus.values[order]
    starts = np.searchsorted(corpus.columns[order], np.arange(corpus.shape[1] + 1))
    begins = np.searchsorted(queries.rows, np.arange(queries.shape[0] + 1))
    found = np.zeros(queries.shape[0], np.int64)
    for query in range(len(found)):
        own, scores = slice(begins[query], begins[query + 1]), np.zeros(corpus.shape[0])
        for column, value in zip(queries.columns[own].tolist(), queries.values[own].tolist(), strict=True):
            at = slice(starts[column], starts[column + 1])
            scores[rows[at]] += values[at] * value  # a row has a column once
        found[query] = scores.argmax()
    return found
