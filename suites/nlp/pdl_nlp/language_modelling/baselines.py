"""What a language model should beat: how often tokens occur, and n-grams as Kneser and Ney smooth them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from pdl.dtype import Array
from pdl_nlp.language_modelling.metrics import BitsPerCharacter, CharacterPerplexity, Perplexity

MOST = 20_000_000  # tokens of training that are counted
ORDERS = (3, 6)


class KneserNey:
    """p(w | h) of n-grams, interpolated, with three discounts at each order (Chen & Goodman, "An empirical study of
    smoothing techniques for language modeling", 1999, section 4.1.6):

        p_n(w | h) = (c(h w) - D(c(h w))) / c(h) + gamma(h) p_{n-1}(w | h'),  h' without its first token

    where c counts n-grams at the highest order and, below it, the tokens that an n-gram follows; p_0 is uniform. Of a
    context that training lacks p is that of the next shorter one.

    ids         int [M]: the tokens of training
    vocabulary  how many tokens there are
    order       n
    """

    def __init__(self, ids: Array, vocabulary: int, order: int) -> None:
        self.vocabulary, self.order = vocabulary, order
        ids = np.asarray(ids, np.int64)
        # the n-gram that ends at each place, by its number among those of its length
        ending, keys, firsts = np.zeros(len(ids), np.int64), list[Array](), list[Array]()
        places, raw = list[Array](), list[Array]()
        for size in range(1, order + 1):
            at = np.arange(size - 1, len(ids))
            key = (ending[at - 1] if size > 1 else 0) * vocabulary + ids[at]
            found, first, inverse, counts = np.unique(key, return_index=True, return_inverse=True, return_counts=True)
            ending = np.full(len(ids), -1, np.int64)
            ending[at] = inverse
            keys.append(found)
            firsts.append(first + size - 1)
            places.append(ending)
            raw.append(counts)
        self.keys, self.levels = keys, list[tuple[Array, Array, Array, Array]]()
        for size in range(1, order + 1):
            if size == order:
                counts = raw[-1]
            else:  # of how many tokens it is the continuation: each longer n-gram is one
                counts = np.bincount(places[size - 1][firsts[size]], minlength=len(keys[size - 1]))
            self.levels.append(
                self._level(keys[size - 1] // vocabulary, counts, len(keys[size - 2]) if size > 1 else 1)
            )

    def _level(self, context: Array, counts: Array, contexts: int) -> tuple[Array, Array, Array, Array]:
        """Discounted counts of n-grams; of contexts the sum, what is left to lower orders, and whether any is there."""
        n = [int((counts == i).sum()) for i in range(1, 5)]
        y = n[0] / (n[0] + 2 * n[1]) if n[0] and n[1] else 0.5
        given = [i - (i + 1) * y * n[i] / n[i - 1] if n[i - 1] else 0.5 * i for i in (1, 2, 3)]
        discounts = np.array([0.0, *(float(np.clip(d, 0.05 * i, 0.95 * i)) for i, d in enumerate(given, 1))])
        taken = np.where(counts > 0, discounts[np.minimum(counts, 3)], 0.0)
        total = np.bincount(context, counts, minlength=contexts)
        left = np.bincount(context, taken, minlength=contexts)
        return counts - taken, total, left, total > 0

    def losses(self, ids: Array, before: Array | None = None) -> Array:
        """-log p of each token but the first, float64 [M - 1], each from the order - 1 tokens before it."""
        ids = np.asarray(ids, np.int64)
        p = np.full(len(ids), 1.0 / self.vocabulary)
        ending = np.zeros(len(ids), np.int64)  # of the context that ends before each place; 0: the empty one
        context = np.zeros(len(ids), np.int64)
        for size in range(1, self.order + 1):
            discounted, total, left, there = self.levels[size - 1]
            known = context >= 0
            key = np.where(known, context, 0) * self.vocabulary + ids
            at = np.minimum(np.searchsorted(self.keys[size - 1], key), len(self.keys[size - 1]) - 1)
            met = known & (self.keys[size - 1][at] == key)
            own = np.where(known, context, 0)
            usable = known & there[own]
            sums = np.where(usable, total[own], 1.0)
            higher = (np.where(met, discounted[at], 0.0) + left[own] * p) / sums
            p = np.where(usable, higher, p)
            ending = np.where(met, at, -1)
            context = np.concatenate([[-1], ending[:-1]])
        return -np.log(p[1:])


def baselines(train: Array, test: Array, vocabulary: int, characters: float) -> dict[str, dict[str, float]]:
    """How often tokens occur in training (with one more of each), and Kneser-Ney of two orders, on the same targets as
    a model; `characters` are those of the test for each of its tokens."""
    train = train[:MOST]
    counts = np.bincount(train, minlength=vocabulary) + 1.0
    found = {"unigram": -np.log(counts / counts.sum())[test[1:]]}
    for order in ORDERS:
        if len(train) > order:
            found[f"{order}-gram (Kneser-Ney)"] = KneserNey(train, vocabulary, order).losses(test)
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
