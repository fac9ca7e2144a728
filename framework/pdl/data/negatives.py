"""Negatives: items drawn as what was not chosen, for sampled losses and sampled evaluations.

Draws are counted, not drawn in turn: they are a function of (seed, epoch, step), and of the row where each row has its
own. So a resumed run goes on as it would have, and any number of threads gives the same.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from pdl.data.randomness import SampleRandom
from pdl.errors import ShapeError, UsageError
from pdl.kernels import sampling as kernels
from pdl.ranking import Lists

Array = np.ndarray[Any, Any]


class Negatives:
    """Draws of the items 1 to `num_items`, with repetition.

        draws = Negatives(num_items, counts=counts, alpha=0.75, seed=0)
        draws.shared(2048, epoch=0, step=17)                              # int64 [2048], for all rows of a batch
        draws.rows(256, 4, epoch=0, step=17, positives=seen, lists=users)  # int64 [256, 4], none that its user has seen
        scores - draws.log_chances[items]                                 # the logQ correction

    An item's probability is proportional to counts[item] ** alpha (int or float [num_items + 1], counts[0] is not read;
    an item without a count is drawn only with alpha 0); without `counts`, or with alpha 0, all are as likely. A draw
    takes the same time whatever the number of items (alias tables: Walker 1977, Vose 1991).
    """

    def __init__(self, num_items: int, *, counts: Array | None = None, alpha: float = 1.0, seed: int = 0) -> None:
        if num_items < 1:
            raise UsageError(f"Negatives: num_items={num_items} leaves nothing to draw")
        self.num_items, self.seed = num_items, seed
        self.chances = np.full(num_items + 1, 1.0 / num_items)
        self.chances[0] = 0.0
        self._tables: dict[str, Array] = {}
        if counts is not None and alpha != 0:
            self._weigh(np.asarray(counts, np.float64), alpha)
        with np.errstate(divide="ignore"):
            self.log_chances = np.log(self.chances)

    def _weigh(self, counts: Array, alpha: float) -> None:
        if counts.shape != (self.num_items + 1,):
            raise ShapeError(f"Negatives: counts {counts.shape} are not ({self.num_items + 1},): row 0 and the items")
        given = counts[1:]
        if not (np.isfinite(given).all() and (given >= 0).all() and given.any()):
            raise UsageError("Negatives: counts must be finite, not negative, and not all 0")
        weights = np.zeros(self.num_items)
        np.power(given / given.max(), alpha, out=weights, where=given > 0)
        weights /= weights.sum()
        self.chances[1:] = weights
        keep, other = np.empty(self.num_items), np.empty(self.num_items, np.int64)
        kernels.alias(keep, other, weights)
        self._tables = {"keep": keep, "other": other, "weights": weights}

    def shared(self, k: int, *, epoch: int, step: int) -> Array:
        """k items for a whole batch: int64 [k]."""
        return self._draw(1, k, epoch, step, {})[0]

    def rows(
        self,
        rows: int | Array,
        k: int,
        *,
        epoch: int,
        step: int,
        positives: Lists | None = None,
        lists: Array | None = None,
    ) -> Array:
        """k items for each row: int64 [N, k].

        rows        how many, or the numbers of the rows' random streams (int64 [N]): with the numbers of samples there,
                    and one `step` for all, what a sample gets does not depend on the batches
        positives   items that a row never gets: list i for row i or, with `lists` (int64 [N], say users), list lists[i]
        """
        options: dict[str, Array] = {}
        if not isinstance(rows, int):
            options["streams"] = np.ascontiguousarray(rows, np.int64)
        if positives is not None:
            options.update(start=positives.start, excluded=positives.values)
            if lists is not None:
                options["lists"] = np.ascontiguousarray(lists, np.int64)
        return self._draw(rows if isinstance(rows, int) else len(rows), k, epoch, step, options)

    def _draw(self, rows: int, k: int, epoch: int, step: int, options: dict[str, Array]) -> Array:
        out = np.empty((rows, k), np.int64)
        key = SampleRandom(self.seed, epoch, step).fork("negatives").bits()
        kernels.sample(out, key, first=1, count=self.num_items, **self._tables, **options)
        return out


def in_batch(targets: Array) -> Array:
    """Where the targets int64 [N] of a batch serve as each other's negatives: bool [N, N], False where column j is the
    very item that row i looks for, j != i, and so no negative of it."""
    targets = np.asarray(targets)
    return (targets[:, None] != targets) | np.eye(len(targets), dtype=bool)
