"""The baselines on the split and by the protocol of a model."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from pdl.errors import ConfigError
from pdl_rec.baselines.base import Baseline
from pdl_rec.baselines.item_knn import ItemKNN
from pdl_rec.baselines.popularity import Popularity
from pdl_rec.baselines.rules import AssociationRules, SequentialRules
from pdl_rec.baselines.vs_knn import VSKNN
from pdl_rec.data.sessions import Sessions
from pdl_rec.metrics import Ranking

BASELINES: dict[str, Callable[[], Baseline]] = {
    "popularity": Popularity,
    "sequential_rules": SequentialRules,
    "association_rules": AssociationRules,
    "item_knn": ItemKNN,
    "vs_knn": VSKNN,
}
_AT_ONCE = 1 << 22  # scores that are in memory at a time


def baselines(
    train: Sessions,
    test: Sessions,
    num_items: int,
    *,
    names: Sequence[str] = tuple(BASELINES),
    ranking: Callable[[], Ranking] = Ranking,
    max_length: int | None = None,
) -> dict[str, dict[str, float]]:
    """{"vs_knn": {"recall@20": ..., ...}, ...}: each fitted on `train` and evaluated on every target of `test`, from
    the `max_length` newest items before it (None: all). `ranking` makes the accumulators, and so the protocol."""
    unknown = [name for name in names if name not in BASELINES]
    if unknown:
        raise ConfigError(f"baselines: {unknown[0]!r} is none of {', '.join(BASELINES)}")
    return {name: measure(BASELINES[name]().fit(train, num_items), test, ranking(), max_length) for name in names}


def measure(baseline: Baseline, test: Sessions, ranking: Ranking, max_length: int | None = None) -> dict[str, float]:
    """The metrics of a fitted baseline on all targets of `test`."""
    rows, events = test.targets()
    step = max(1, min(512, _AT_ONCE // (baseline.num_items + 1)))
    for begin in range(0, len(rows), step):
        part = slice(begin, begin + step)
        items = test.prefixes(rows[part], events[part], max_length)
        ranking.update(baseline.scores(items), np.asarray(test.items[events[part]]), items)
    return ranking.compute()
