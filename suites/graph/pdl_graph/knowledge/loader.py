"""Batches of knowledge graphs: queries with an answer and negatives, and queries to be ranked. Built by the loader's
thread, beside the training step."""

from __future__ import annotations

from typing import Any

import numpy as np

from pdl.data import Batch, Dataset, Sample
from pdl.data.randomness import SampleRandom
from pdl_graph.knowledge.queries import KnownAnswers, queries, without


class Queries(Dataset):
    """The two queries of every fact: sample i < T asks for the tail of fact i, sample T + i for its head.

    A batch has "entity", "relation", "inverse" and "answer", int64 [N].
    """

    def __init__(self, facts: np.ndarray, source: Any = None) -> None:
        self.facts, self.dataset = facts, source
        self.entity, self.relation, self.inverse, self.answer = queries(facts)

    def __len__(self) -> int:
        return len(self.entity)

    def __getitem__(self, index: int) -> Sample:
        return {name: column[0] for name, column in self.columns(np.array([index])).items()}

    def columns(self, rows: np.ndarray) -> Batch:
        """The columns of these queries."""
        return {
            "entity": self.entity[rows], "relation": self.relation[rows], "inverse": self.inverse[rows],
            "answer": self.answer[rows],
        }  # fmt: skip


class TrainingQueries(Queries):
    """Queries that can be learned from; and, where `k` negatives are drawn, what a batch shares: "negatives" int64 [k],
    different entities, and "known" bool [N, k], which of them answer the query, too.

    With `subsampling` a batch has "weight" float32 [N], 1 / sqrt(facts with the query + facts with the fact's other
    query), of mean 1 over all: the weights that stand for word2vec's subsampling of frequent words (Mikolov et al.,
    arXiv 1310.4546) in the RotatE paper's code, subsampling_weight there.

    Draws are a function of (seed, epoch, the first query of the batch).
    """

    def __init__(
        self,
        facts: np.ndarray,
        known: KnownAnswers,
        num_entities: int,
        *,
        k: int | None,
        subsampling: bool,
        seed: int,
        source: Any,
    ) -> None:
        super().__init__(facts, source)
        self.known, self.num_entities, self.seed, self.epoch = known, num_entities, seed, 0
        self.k = None if k is None else min(k, num_entities)
        self.weight = self._weights() if subsampling else None

    def set_epoch(self, epoch: int) -> None:
        """New draws for every epoch."""
        self.epoch = epoch

    def _weights(self) -> np.ndarray:
        lengths = self.known.of(self.entity, self.relation, self.inverse).lengths
        both = np.tile(lengths.reshape(2, -1).sum(axis=0), 2)
        weight = 1.0 / np.sqrt(both)
        return (weight / weight.mean()).astype(np.float32)

    def get_batch(self, indices: np.ndarray) -> Batch:
        """The batch of these queries."""
        batch = self.columns(indices)
        if self.weight is not None:
            batch["weight"] = self.weight[indices]
        if self.k is not None:
            batch |= self._negatives(batch, int(indices[0]))
        return batch

    def _negatives(self, batch: Batch, first: int) -> dict[str, np.ndarray]:
        key = SampleRandom(self.seed, self.epoch, first).fork("negatives").bits()
        rng = np.random.Generator(np.random.Philox(key=key))
        negatives = rng.choice(self.num_entities, self.k, replace=False, shuffle=False) + 1
        place = np.full(self.num_entities + 1, -1, np.int64)
        place[negatives] = np.arange(len(negatives))
        lists = self.known.of(batch["entity"], batch["relation"], batch["inverse"])
        columns = place[lists.values]
        rows = np.repeat(np.arange(len(lists)), lists.lengths)
        known = np.zeros((len(lists), len(negatives)), bool)
        known[rows[columns >= 0], columns[columns >= 0]] = True
        return {"negatives": negatives, "known": known}


class RankedQueries(Queries):
    """Queries to be ranked; beside the columns a batch has "excluded", `pdl.ranking.Lists` of the other known
    answers."""

    def __init__(self, facts: np.ndarray, known: KnownAnswers, source: Any = None) -> None:
        super().__init__(facts, source)
        self.known = known

    def get_batch(self, indices: np.ndarray) -> Batch:
        """The batch of these queries."""
        batch = self.columns(indices)
        lists = self.known.of(batch["entity"], batch["relation"], batch["inverse"])
        return {**batch, "index": indices, "excluded": without(lists, batch["answer"])}
