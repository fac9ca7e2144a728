"""What a model of pairs should beat: the most frequent class, and words that two texts share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.dtype import Array
from pdl.train.classical import log_prior, logistic_regression, scored, spread
from pdl.train.metrics import class_metrics
from pdl_nlp.classification.baselines import ROWS, tf_idf
from pdl_nlp.embedding.baselines import bm25, products
from pdl_nlp.loader import pairs_of, scores_of
from pdl_nlp.matching.metrics import ranking_metrics

if TYPE_CHECKING:
    from pdl_nlp.matching.task import Matching


def baselines(task: Matching, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
    """Of classes: the most frequent one; logistic regression on the cosine of TF-IDF (tokens, and pairs of neighbours),
    BM25 of each text for the other, and lengths. Of rankings: the cosine, and BM25."""
    train, test = pairs_of(datasets["train"]), pairs_of(datasets[split])
    if task.ranked:
        texts = list(dict.fromkeys(train[1]))
        left, right = (tf_idf(task.tokenizer, texts, column)[1] for column in test)
        found = {"TF-IDF": products(left, right), "BM25": bm25(task.tokenizer, texts, *test)}
        relevance = scores_of(datasets[split])
        return {name: _ranked(scores, test[0], relevance) for name, scores in found.items()}
    rows = spread(len(train[0]), ROWS)
    few = f" ({len(rows):,} pairs)" if len(rows) < len(train[0]) else ""
    some = tuple([column[int(row)] for row in rows] for column in train)
    known = [text for column in some for text in column]
    x, x_test = (_shared(task, known, *columns) for columns in (some, test))
    data, other = datasets["train"], datasets[split]
    y = np.array([int(data[int(row)]["label"]) for row in rows])
    targets = np.array([int(other[index]["label"]) for index in range(len(other))])
    count = len(task.classes)
    made = {
        "majority": np.broadcast_to(log_prior(y, count), (len(targets), count)),
        f"logistic regression on shared words{few}": logistic_regression(x, y, x_test, count),
    }
    return {name: scored(class_metrics(count), scores, targets) for name, scores in made.items()}


def _shared(task: Matching, known: list[str], first: list[str], second: list[str]) -> Array:
    """float [N, 5]: the cosine of TF-IDF, BM25 both ways, and the logarithms of both lengths."""
    left, right = (tf_idf(task.tokenizer, known, column)[1] for column in (first, second))
    both = [bm25(task.tokenizer, known, *each) for each in ((first, second), (second, first))]
    lengths = [np.log1p(np.diff(task.tokenizer.encode_many(column).starts)) for column in (first, second)]
    return np.stack([products(left, right), *both, *lengths], axis=1)


def _ranked(scores: Array, queries: list[str], relevance: Array) -> dict[str, float]:
    numbers = {text: number for number, text in enumerate(dict.fromkeys(queries))}
    query = np.array([numbers[text] for text in queries])
    metrics = ranking_metrics()
    for metric in metrics.values():
        metric.update(scores, relevance, query, np.arange(len(query)))
    return {name: value for name, metric in metrics.items() if isinstance(value := metric.compute(), float)}
