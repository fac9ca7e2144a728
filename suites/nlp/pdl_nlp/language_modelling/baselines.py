"""What a language model should beat: how often tokens occur, and n-grams as Kneser and Ney smooth them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pdl import ngram
from pdl.dtype import Array
from pdl_nlp.language_modelling.metrics import BitsPerCharacter, CharacterPerplexity, Perplexity

MOST = 20_000_000  # tokens of training that are counted
ORDERS = (3, 6)


def kneser_ney(train: Array, test: Array, vocabulary: int, order: int) -> Array:
    """-log p of each token of the test but the first, float64 [M - 1], each from the order - 1 tokens before it, by
    n-grams of training (`pdl.ngram.kneser_ney`)."""
    arrays = ngram.kneser_ney(train, np.arange(len(train)), vocabulary, order, marks=False)
    return -ngram.BackOff(*arrays, vocabulary).read(test)[1:]


def baselines(train: Array, test: Array, vocabulary: int, characters: float) -> dict[str, dict[str, float]]:
    """How often tokens occur in training (with one more of each), and Kneser-Ney of two orders, on the same targets as
    a model; `characters` are those of the test for each of its tokens."""
    train = train[:MOST]
    counts = np.bincount(train, minlength=vocabulary) + 1.0
    found = {"unigram": -np.log(counts / counts.sum())[test[1:]]}
    for order in ORDERS:
        if len(train) > order:
            found[f"{order}-gram (Kneser-Ney)"] = kneser_ney(train, test, vocabulary, order)
    return {name: dict(_measured(losses, characters)) for name, losses in found.items()}


def _measured(losses: Array, characters: float) -> Mapping[str, float]:
    metrics = {
        "perplexity": Perplexity(), "character_perplexity": CharacterPerplexity(),
        "bits_per_character": BitsPerCharacter(),
    }  # fmt: skip
    count = np.array([len(losses)])
    for metric in metrics.values():
        metric.update(np.array([losses.sum()]), count, count * characters)
    return {"loss": float(losses.mean()), **{name: metric.compute() for name, metric in metrics.items()}}
