"""What vectors of texts should beat: words that two texts share, by TF-IDF and by BM25."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.dtype import Array
from pdl.train.classical import Sparse
from pdl_nlp.classification.baselines import tf_idf
from pdl_nlp.embedding.metrics import Spearman
from pdl_nlp.loader import pairs_of, scores_of
from pdl_nlp.tokenizers import Tokenizer

if TYPE_CHECKING:
    from pdl_nlp.embedding.task import Embedding

K1, B = 1.2, 0.75  # of BM25


def baselines(task: Embedding, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
    """The cosine of TF-IDF (tokens, and pairs of neighbours), and BM25 of the second text for the first."""
    known = [text for column in pairs_of(datasets["train"]) for text in column]
    (first, second), scores = pairs_of(datasets[split]), scores_of(datasets[split])
    left, right = (tf_idf(task.tokenizer, known, column)[1] for column in (first, second))
    found = {"TF-IDF": products(left, right), "BM25": bm25(task.tokenizer, known, first, second)}
    return {name: {"spearman": _measured(likeness, scores)} for name, likeness in found.items()}


def products(a: Sparse, b: Sparse) -> Array:
    """sum_c a[i, c] b[i, c] of two matrices of one shape: float [rows]."""
    mine, theirs = (each.rows.astype(np.int64) * each.shape[1] + each.columns for each in (a, b))
    _, left, right = np.intersect1d(mine, theirs, assume_unique=True, return_indices=True)
    return np.bincount(a.rows[left], a.values[left] * b.values[right], minlength=a.shape[0])


def bm25(tokenizer: Tokenizer, known: list[str], queries: list[str], texts: list[str]) -> Array:
    """Okapi BM25 (Robertson & Zaragoza 2009) of text i for query i, float [N]: the sum over the query's tokens of
    log(1 + (n - df + 0.5) / (df + 0.5)) tf (k1 + 1) / (tf + k1 (1 - b + b length / mean length)), with n and df of
    `known`."""
    size = len(tokenizer.tokens)

    def counted(column: list[str]) -> tuple[Sparse, Array]:
        made = tokenizer.encode_many(column)
        lengths = np.diff(made.starts)
        keys, counts = np.unique(np.repeat(np.arange(len(column)), lengths) * size + made.ids, return_counts=True)
        return Sparse(keys // size, keys % size, counts.astype(np.float64), (len(column), size)), lengths

    corpus, spans = counted(known)
    df = np.bincount(corpus.columns, minlength=size)
    idf = np.log1p((len(known) - df + 0.5) / (df + 0.5))
    query, (text, lengths) = counted(queries)[0], counted(texts)
    room = K1 * (1 - B + B * lengths / max(spans.mean(), 1e-9))
    weights = idf[text.columns] * text.values * (K1 + 1) / (text.values + room[text.rows])
    return products(query, text._replace(values=weights))


def _measured(likeness: Array, scores: Array) -> float:
    metric = Spearman()
    metric.update(likeness, scores)
    return metric.compute()
