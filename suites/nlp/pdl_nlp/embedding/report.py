"""What the report says of vectors of texts: likeness against scores, the pairs that are furthest off, and the nearest
texts of a few."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

import pdl
from pdl.dtype import Array
from pdl.nn import Module
from pdl.nn.module import evaluating
from pdl.report import Section, scatter_chart, table
from pdl.train import Evaluation, Reporter
from pdl_nlp.classification.report import LETTERS, lengths
from pdl_nlp.embedding.loader import Pairs
from pdl_nlp.embedding.metrics import ranks

if TYPE_CHECKING:
    from pdl_nlp.embedding.task import Embedding

MISTAKES, QUERIES, NEAREST = 24, 8, 3
AMONG = 1_000  # texts that neighbours are looked for among
TOGETHER = 64


class EmbeddingReporter(Reporter):
    """Ranks of cosines against ranks of scores; how long texts are; the pairs whose ranks are furthest apart; the
    nearest second texts of a few first ones."""

    task: Embedding

    def sections(self, evaluation: Evaluation, dataset: Any) -> list[Section]:
        likeness, scores, index = evaluation.details["pairs"].T
        by_cosine, by_score = (ranks(each) / len(each) for each in (likeness, scores))
        chart = scatter_chart(by_score, by_cosine, x_label="rank of the score", y_label="rank of the cosine")
        made = [Section(f"Cosines and scores ({evaluation.split})", chart)]
        if not isinstance(dataset, Pairs):
            return made
        made.append(Section(f"Tokens of a pair ({evaluation.split})", lengths(dataset.lengths, dataset.lengths)))
        worst = np.argsort(-np.abs(by_cosine - by_score), kind="stable")[:MISTAKES]
        rows = [
            (_shown(pair["text"]), _shown(pair["pair"]), float(scores[at]), float(likeness[at]))
            for at in worst.tolist()
            for pair in (dataset.dataset[int(index[at])],)
        ]
        made.append(Section("Pairs that are furthest off", table(rows, head=("text", "pair", "score", "cosine"))))
        if self.task.net is not None:
            made.append(Section("Nearest texts", self._neighbours(dataset, self.task.net)))
        return made

    def _neighbours(self, pairs: Pairs, net: Module) -> str:
        """The nearest of all second texts, for first texts spread over the data."""
        among = np.arange(min(AMONG, len(pairs))) * len(pairs) // min(AMONG, len(pairs))
        asked = among[np.arange(min(QUERIES, len(among))) * len(among) // min(QUERIES, len(among))]
        cosines = _vectors(pairs, asked, "tokens", net) @ _vectors(pairs, among, "pair", net).T
        rows = []
        for number, found in zip(asked.tolist(), cosines, strict=True):
            seen = set[str]()
            for at in np.argsort(-found, kind="stable").tolist():
                text = pairs.dataset[int(pairs.kept[among[at]])]["pair"]
                if text not in seen and len(seen) < NEAREST:
                    query = _shown(pairs.dataset[int(pairs.kept[number])]["text"]) if not seen else ""
                    rows.append((query, float(found[at]), _shown(text)))
                    seen.add(text)
        return table(rows, head=("text", "cosine", "nearest second texts"))


def _vectors(pairs: Pairs, indices: Array, side: str, net: Module) -> Array:
    """Vectors [N, C] of one side of some pairs."""
    found = list[Array]()
    with evaluating(net):
        for begin in range(0, len(indices), TOGETHER):
            batch = pairs.get_batch(indices[begin : begin + TOGETHER])
            found.append(net(pdl.as_tensor(batch[side])).numpy())
    return np.concatenate(found)


def _shown(text: str) -> str:
    return text[:LETTERS] + (" ..." if len(text) > LETTERS else "")
