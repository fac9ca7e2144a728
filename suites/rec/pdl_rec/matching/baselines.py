"""What needs no training, for users with histories and sets of relevant items."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from pdl_rec.data.interactions import Interactions

if TYPE_CHECKING:
    from pdl_rec.matching.loader import Queries
    from pdl_rec.metrics import Ranking

MOST_ITEMS = 20_000  # items whose similarities, a float32 matrix of both, are held in memory
NEIGHBOURS = 100
_AT_ONCE = 256  # users


def baselines(
    train: Interactions, queries: Queries, num_items: int, ranking: Callable[[], Ranking], *, known: bool = True
) -> dict[str, dict[str, float]]:
    """{"popularity": {"recall@10": ...}, "item_knn": {...}}: fitted on the training data and evaluated as the model is.
    Item-kNN is left out where there are more than 20,000 items, or where users are not those of training (`known`)."""
    counts = np.bincount(train.items, minlength=num_items + 1).astype(np.float32)
    found = {"popularity": _measure(lambda had: np.repeat(counts[None], len(had), axis=0), train, queries, ranking())}
    if known and num_items <= MOST_ITEMS:
        table = similarities(train, num_items)
        found["item_knn"] = _measure(lambda had: had @ table, train, queries, ranking())
    return found


def similarities(train: Interactions, num_items: int, neighbours: int = NEIGHBOURS) -> np.ndarray:
    """Item-kNN (Deshpande & Karypis, "Item-based top-N recommendation algorithms", ACM TOIS 2004): row j holds the
    cosines n_ij / sqrt(n_i n_j) of item j with its `neighbours` most similar other items i, zeros elsewhere; n count
    users. A user's score of an item is the sum over the user's items. float32 [num_items + 1, num_items + 1].
    """
    order = np.argsort(train.users, kind="stable")
    both = np.zeros((num_items + 1, num_items + 1), np.float32)
    for items in np.split(train.items[order], np.flatnonzero(np.diff(train.users[order])) + 1):
        items = np.unique(items)
        both[np.ix_(items, items)] += 1
    norm = np.sqrt(np.maximum(np.diag(both), 1))
    both /= norm[:, None] * norm
    np.fill_diagonal(both, 0)
    if neighbours < num_items:
        least = np.partition(both, -neighbours, axis=1)[:, -neighbours]
        both[both < least[:, None]] = 0
    return both


def _measure(
    score: Callable[[np.ndarray], np.ndarray], train: Interactions, queries: Queries, ranking: Ranking
) -> dict[str, float]:
    """`score` takes what users had in training, float32 [N, num_items + 1] of 0 and 1."""
    size = queries.num_items + 1
    order = np.argsort(train.users, kind="stable")
    users, items = train.users[order], train.items[order]
    for begin in range(0, len(queries), _AT_ONCE):
        rows = np.arange(begin, min(begin + _AT_ONCE, len(queries)))
        batch, queried = queries.get_batch(rows), queries.users[rows]
        had = np.zeros((len(rows), size), np.float32)
        low, high = np.searchsorted(users, queried), np.searchsorted(users, queried, side="right")
        for row, (a, b) in enumerate(zip(low, high, strict=True)):
            had[row, items[a:b]] = 1
        scores = score(had)
        scores[:, 0] = -np.inf
        excluded = batch["excluded"]
        if excluded is not None:
            scores[np.repeat(np.arange(len(rows)), excluded.lengths), excluded.values] = -np.inf
        ranking.update(scores, batch["relevant"])
    return ranking.compute()
