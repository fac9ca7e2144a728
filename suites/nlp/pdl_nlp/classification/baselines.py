"""What a model of texts should beat: the most frequent class, and logistic regression on TF-IDF."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.dtype import Array
from pdl.train.classical import Sparse, log_prior, scored, sparse_logistic_regression, spread
from pdl.train.metrics import Metric, class_metrics
from pdl_nlp.classification.metrics import label_metrics, neutral_metrics, outside_metrics
from pdl_nlp.tokenizers import Tokenizer

if TYPE_CHECKING:
    from pdl_nlp.classification.task import TextClassification

ROWS = 50_000  # training texts that the regression sees
LEAST = 2  # texts that must have a term


def baselines(task: TextClassification, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
    """The most frequent class (of several labels, each by its share), and logistic regression on the TF-IDF of tokens
    and pairs of neighbours."""
    train, test = datasets["train"], datasets[split]
    rows = spread(len(train), ROWS)
    samples, others = [train[int(row)] for row in rows], [test[index] for index in range(len(test))]
    y, targets = (np.array([each["label"] for each in part]) for part in (samples, others))
    x, x_test = tf_idf(task.tokenizer, *([each["text"] for each in part] for part in (samples, others)))
    count = len(task.classes)
    few = f" ({len(rows):,} texts)" if len(rows) < len(train) else ""
    own = y if task.several else np.eye(count, dtype=np.float32)[y]
    share = (y.sum(axis=0) + 1) / (len(y) + 2) if task.several else None
    made = {
        "majority": np.log(share / (1 - share)) if share is not None else log_prior(y, count),
        f"logistic regression on TF-IDF{few}": sparse_logistic_regression(x, own, x_test, several=bool(task.several)),
    }

    def measured(scores: Array) -> dict[str, float]:
        metrics: dict[str, Metric] = label_metrics() if task.several else class_metrics(count)
        metrics |= outside_metrics() if task.outside else {}
        metrics |= neutral_metrics(task.classes.index(task.neutral)) if task.neutral else {}
        return scored(metrics, np.broadcast_to(scores, (len(others), count)), targets)

    return {name: measured(scores) for name, scores in made.items()}


def tf_idf(tokenizer: Tokenizer, texts: list[str], others: list[str]) -> tuple[Sparse, Sparse]:
    """The terms of `texts` that at least two of them have (tokens, and pairs of neighbours), weighted by tf (1 +
    log((1 + n) / (1 + df))), rows of length 1, as scikit-learn's TfidfVectorizer has them; and `others` by the same
    terms and weights."""
    base = len(tokenizer.tokens)
    rows, terms, tf = _terms(tokenizer, texts, base)
    known, df = np.unique(terms, return_counts=True)
    known, df = known[df >= LEAST], df[df >= LEAST]
    idf = 1 + np.log((1 + len(texts)) / (1 + df))
    found = (_weighted(known, idf, len(texts), rows, terms, tf), _terms(tokenizer, others, base))
    return found[0], _weighted(known, idf, len(others), *found[1])


def _terms(tokenizer: Tokenizer, texts: list[str], base: int) -> tuple[Array, Array, Array]:
    """(text, term, how often) of each term in each text: tokens 0 to base - 1, pairs from base on."""
    made = tokenizer.encode_many(texts)
    rows = np.repeat(np.arange(len(texts)), np.diff(made.starts))
    ids = made.ids.astype(np.int64)
    together = np.flatnonzero(rows[1:] == rows[:-1])
    pairs = base + ids[together] * base + ids[together + 1]
    terms, owner = np.concatenate([ids, pairs]), np.concatenate([rows, rows[together]])
    order = np.lexsort((terms, owner))
    terms, owner = terms[order], owner[order]
    first = np.flatnonzero(np.diff(terms, prepend=-1) | np.diff(owner, prepend=-1))
    return owner[first], terms[first], np.diff(first, append=len(terms))


def _weighted(known: Array, idf: Array, count: int, rows: Array, terms: Array, tf: Array) -> Sparse:
    at = np.minimum(np.searchsorted(known, terms), max(len(known) - 1, 0))
    kept = known[at] == terms if len(known) else np.zeros(len(terms), bool)
    rows, columns = rows[kept], at[kept]
    values = tf[kept] * idf[columns]
    norms = np.sqrt(np.bincount(rows, values**2, minlength=count))
    return Sparse(rows, columns, (values / norms[rows]).astype(np.float32), (count, len(known)))
