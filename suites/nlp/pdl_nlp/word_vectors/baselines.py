"""What vectors of words should beat: how often words occur, and how often two occur together."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.dtype import Array
from pdl_nlp.models.word2vec import band
from pdl_nlp.word_vectors.metrics import ContextAUC

if TYPE_CHECKING:
    from pdl_nlp.word_vectors.task import WordVectors

WORDS = 4_000_000  # of training that pairs are counted in, at most
BATCH = 32  # pieces that share negatives


def baselines(task: WordVectors, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
    """Contexts by how often they occur in training, and by their pointwise mutual information with the word, counted
    there: log p(u, v) / p(u) p(v), below all others where the two never met."""
    train = task.windows(datasets["train"], seed=0)
    test = train if split == "train" else task.windows(datasets[split], seed=0)
    window, size = task.window, len(task.tokenizer.tokens)
    pairs, together = _counted(train.ids[:WORDS], window, size)
    seen = np.maximum(train.counts, 1)

    def information(word: Array, context: Array) -> Array:
        at = np.minimum(np.searchsorted(pairs, word * size + context), len(pairs) - 1)
        met = pairs[at] == word * size + context
        return np.where(met, np.log(together[at]) - np.log(seen[word]) - np.log(seen[context]), -np.inf)

    metrics = {"frequency": ContextAUC(), "pointwise mutual information": ContextAUC()}
    for start in range(0, len(test), BATCH):
        batch = test.get_batch(np.arange(start, min(start + BATCH, len(test))))
        tokens, negatives = batch["tokens"], batch["negatives"]
        weight = band(tokens.shape[1], window) * (tokens > 1)[:, :, None] * (tokens > 1)[:, None, :]
        word = np.maximum(tokens, 1)[:, :, None]  # what does not count has any score
        own, other = np.broadcast_arrays(word, np.maximum(tokens, 1)[:, None, :])[1], negatives[None, None, :]
        metrics["frequency"].update(seen[own], weight, np.broadcast_to(seen[other], (*tokens.shape, len(negatives))))
        metrics["pointwise mutual information"].update(information(word, own), weight, information(word, other))
    return {name: {"auc": metric.compute()} for name, metric in metrics.items()}


def _counted(ids: Array, window: int, size: int) -> tuple[Array, Array]:
    """The pairs (u, v) of words that stand near each other, ascending numbers u * size + v int64 [P], and how often,
    a distance d counting as much as in the loss."""
    ids = ids.astype(np.int64)
    found, counts = [np.zeros(0, np.int64)], [np.zeros(0)]
    for apart in range(1, window + 1):
        a, b = ids[:-apart], ids[apart:]
        both = (a > 1) & (b > 1)
        found += [a[both] * size + b[both], b[both] * size + a[both]]
        counts += [np.full(2 * int(both.sum()), (window + 1 - apart) / window)]
    pairs, place = np.unique(np.concatenate(found), return_inverse=True)
    return pairs, np.bincount(place, np.concatenate(counts), minlength=len(pairs))
