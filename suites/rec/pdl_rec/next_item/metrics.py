"""What became of every target: the ranks that the report groups, and a few whole rankings."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from pdl.ranking import Lists, top_k
from pdl.train import Metric
from pdl_rec.metrics import Ranking

EXAMPLES, SHOWN = 12, 5  # sessions that are kept, and recommendations of each


@dataclass(frozen=True)
class Found:
    """What became of each sample, in order of their numbers: the rank of its target, float64 [N] (infinity for a miss);
    and for a few that a hash of their numbers picks, the best items: {index: int64 [SHOWN]}."""

    ranks: np.ndarray
    best: dict[int, np.ndarray]


class Places(Metric):
    """Keeps `Found` of an evaluation, with the protocol of `ranking`."""

    def __init__(self, ranking: Ranking) -> None:
        self.ranking, self.ranks, self.best = ranking, list[tuple[np.ndarray, np.ndarray]](), dict[int, np.ndarray]()

    def update(self, scores: np.ndarray, targets: np.ndarray, items: np.ndarray, index: np.ndarray) -> None:
        """scores [N, n + 1], targets and index int64 [N], items int64 [N, T]."""
        seen = None if self.ranking.self_recommendation else Lists.of_rows(items)
        self.ranks.append((index, self.ranking.ranks(scores, targets, seen)))
        rows = {int(i): row for row, i in enumerate(index)}
        kept = sorted([*self.best, *rows], key=_picked)[:EXAMPLES]
        new = [rows[i] for i in kept if i in rows]
        some = None if seen is None else seen.take(np.array(new, np.int64))
        _, tops = top_k(scores[new], SHOWN, excluded=some)
        self.best = {i: self.best[i] for i in kept if i in self.best} | dict(
            zip(index[new].tolist(), tops, strict=True)
        )

    def compute(self) -> Any:
        index, ranks = (np.concatenate(each) for each in zip(*self.ranks, strict=True))
        return Found(ranks[np.argsort(index)], self.best)


def _picked(index: int) -> int:
    return zlib.crc32(index.to_bytes(8, "little"))
