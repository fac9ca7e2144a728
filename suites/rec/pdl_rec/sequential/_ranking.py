"""Stand-in until pdl_rec.evaluation is there."""

from __future__ import annotations

from typing import Any

import numpy as np

from pdl.train.metrics import Metric


class RankMetric(Metric):
    def __init__(self, kind: str, k: int) -> None:
        self.kind, self.k, self.total, self.seen = kind, k, 0.0, 0

    def update(self, scores: Any, targets: Any) -> None:
        own = np.take_along_axis(scores, targets[:, None], axis=1)
        rank = (scores[:, 1:] >= own).sum(axis=1)
        rank = np.where(targets == 0, scores.shape[1], rank)
        hit = rank <= self.k
        value = {"recall": hit, "mrr": hit / rank, "ndcg": hit / np.log2(rank + 1.0)}[self.kind]
        self.total += float(value.sum())
        self.seen += len(targets)

    def compute(self) -> float:
        return self.total / self.seen if self.seen else float("nan")


def ranking(cutoffs: Any) -> dict[str, Metric]:
    return {f"{kind}@{k}": RankMetric(kind, k) for k in cutoffs for kind in ("recall", "mrr", "ndcg")}
