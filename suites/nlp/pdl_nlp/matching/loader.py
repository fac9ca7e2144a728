"""From pairs of texts to batches of numbers, pairs of about one length together; for rankings whole queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pdl.data import Batch, BatchSampler, DataLoader, RandomSampler, SequentialSampler
from pdl.data.randomness import SampleRandom
from pdl.dtype import Array
from pdl.errors import DataError
from pdl.train.recipe import Data, Recipe
from pdl_nlp.loader import ByPair, loader_of, pairs_of, scores_of
from pdl_nlp.models.base import MatchingModel
from pdl_nlp.tokenizers import Tokenizer


class Pairs(ByPair):
    """Pairs of texts as numbers: sample i is {"tokens" int64 [T], "pair" int64 [T], "label" int64}; with `joined`
    "segments" in place of "pair". With `ranked` it has "relevance" float32 and "query" int64, the number of the first
    text among those that differ, in place of the label; an index that comes again in a batch only fills it, and has
    query -1."""

    def __init__(
        self,
        dataset: Any,
        tokenizer: Tokenizer,
        max_length: int,
        sizes: Sequence[int] | None = None,
        *,
        joined: bool = False,
        ranked: bool = False,
    ) -> None:
        self.dataset, self.classes, self.ranked = dataset, dataset.classes, ranked
        texts, pairs = pairs_of(dataset)
        if ranked:
            self.relevance = scores_of(dataset).astype(np.float32)
            numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}
            self.queries = np.array([numbers[text] for text in texts], np.int64)
        else:
            self.targets = np.array([int(dataset[index]["label"]) for index in range(len(dataset))], np.int64)
        self._number(texts, pairs, tokenizer, max_length, sizes, joined=joined)

    @property
    def labels(self) -> np.ndarray | None:
        return None if self.ranked else self.targets

    def get_batch(self, indices: np.ndarray) -> Batch:
        """{"tokens", and "pair" or "segments": int64 [N, T]; "label" int64 [N], or "relevance" float32 [N] and "query"
        int64 [N]}."""
        made = super().get_batch(indices)
        if not self.ranked:
            return {**made, "label": self.targets[indices]}
        query = np.full(len(indices), -1, np.int64)
        first = np.unique(indices, return_index=True)[1]
        query[first] = self.queries[indices[first]]
        return {**made, "relevance": self.relevance[indices], "query": query}


class QueryBatchSampler(BatchSampler):
    """Batches of whole queries whose pairs have about one length; as many pairs in each as fit into `batch_size`,
    filled up with the last one again. A query with more pairs has a batch of a multiple of that size. Which queries are
    together is a function of the seed, so that all epochs have as many batches.

    queries  int [N]: the query of each pair, from 0
    lengths  int [N] of the pairs
    sizes    ascending, the last one no less than the longest pair
    shuffle  queries in a random order, and batches in a new one each epoch, a function of (seed, epoch); otherwise from
             short to long
    """

    def __init__(
        self, queries: Array, lengths: Array, batch_size: int, sizes: Array, *, shuffle: bool = False, seed: int = 0
    ) -> None:
        count = int(queries.max(initial=-1)) + 1
        super().__init__(RandomSampler(count, seed=seed) if shuffle else SequentialSampler(count), batch_size)
        self.shuffle, self.seed = shuffle, seed
        longest = np.zeros(count, np.int64)
        np.maximum.at(longest, queries, lengths)
        buckets, order = np.searchsorted(sizes, longest), np.asarray(self.sampler.order(0))
        rows = np.argsort(queries, kind="stable")
        members = np.split(rows, np.cumsum(np.bincount(queries, minlength=count))[:-1])
        self.made, held = list[np.ndarray](), list[np.ndarray]()
        for query in order[np.argsort(buckets[order], kind="stable")].tolist():
            if held and sum(map(len, held)) + len(members[query]) > batch_size:
                self.made.append(self._filled(np.concatenate(held)))
                held = []
            held.append(members[query])
        self.made += [self._filled(np.concatenate(held))] if held else []

    def __len__(self) -> int:
        return len(self.made)

    def batches(self, epoch: int) -> list[np.ndarray]:
        if not self.shuffle:
            return self.made
        order = SampleRandom(self.seed, epoch, 0).fork("batches").generator().permutation(len(self.made))
        return [self.made[k] for k in order]

    def _filled(self, rows: np.ndarray) -> np.ndarray:
        more = -len(rows) % self.batch_size
        return np.concatenate([rows, np.repeat(rows[-1:], more)])


def loader_of_pairs(pairs: Pairs, data: Data, *, by_query: bool, training: bool, seed: int) -> DataLoader:
    """Batches of pairs; where a loss compares the candidates of a query, of whole queries."""
    if not by_query:
        return loader_of(pairs, data, training=training, seed=seed)
    if training and not contrasted(pairs):
        raise DataError(
            "data.train: no query has candidates of different relevance, so there is nothing to rank; each query needs "
            "several rows with the same first text"
        )
    size = data.size(training=training)
    sampler = QueryBatchSampler(pairs.queries, pairs.lengths, size, pairs.sizes, shuffle=training, seed=seed)
    return DataLoader(pairs, sampler=sampler, seed=seed, workers=data.workers, prefetch=data.prefetch)


def contrasted(pairs: Pairs) -> bool:
    """Whether some query has candidates of different relevance."""
    low, high = np.full(pairs.queries.max() + 1, np.inf), np.full(pairs.queries.max() + 1, -np.inf)
    np.minimum.at(low, pairs.queries, pairs.relevance)
    np.maximum.at(high, pairs.queries, pairs.relevance)
    return bool((low < high).any())


def joined(recipe: Recipe) -> bool:
    """Whether the model of a recipe reads both texts in one row."""
    cls = recipe.model.cls
    return not (isinstance(cls, type) and issubclass(cls, MatchingModel))
