"""`Fold`: samples of one or several data sets, dealt out again for cross-validation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

import numpy as np

from pdl.data.dataset import Dataset, Subset
from pdl.data.splits import grouped_folds, of_fold, stratified_folds
from pdl.errors import ConfigError, UsageError
from pdl.hints import Range


class Fold(Subset):
    """The samples of a split in k-fold cross-validation: those of `datasets` are one pool, which is cut into `folds`
    parts: of equal size (up to one sample), each with the same share of every class where samples have classes; or of
    whole groups where samples belong together (`Dataset.dealing`).

    split     test: part `fold`; val: as `validate` says; train: all others
    validate  "inner": val is the next part; "held_out": val is the test part itself; None: there is no val
    seed      of the order in which samples are dealt out
    by        the column of a table whose values count as classes, where they are few
    """

    def __init__(
        self,
        datasets: list[Dataset],
        *,
        split: Literal["train", "val", "test"],
        fold: Annotated[int, Range(0)],
        folds: Annotated[int, Range(2)],
        validate: Literal["inner", "held_out"] | None = "inner",
        seed: Annotated[int, Range(0)] = 0,
        by: str | None = None,
    ) -> None:
        if fold >= folds:
            raise ConfigError(f"Fold: fold={fold} of {folds} folds; they are numbered from 0 to {folds - 1}")
        pool = pooled(datasets)
        dealing = pool.dealing(by)
        count = len(pool) if dealing.groups is None else len(np.unique(dealing.groups))
        if count < folds:
            what = "samples" if dealing.groups is None else "groups of samples"
            raise ConfigError(f"Fold: {count} {what} cannot be cut into {folds} folds")
        if dealing.groups is not None:
            parts = grouped_folds(dealing.groups, folds, seed)
        else:
            parts = stratified_folds(
                np.zeros(len(pool), np.int64) if dealing.strata is None else dealing.strata, folds, seed
            )
        rows = {name: of_fold(parts, name, fold, folds, validate) for name in ("train", "val", "test")}
        before = {"train": rows["test"][:0], "val": rows["train"], "test": np.flatnonzero(parts != fold)}
        made = pool.dealt(rows[split], before[split])
        own = type(made) is not Subset
        super().__init__(made if own else pool, np.arange(len(made)) if own else rows[split])


def pooled(datasets: Sequence[Any]) -> Dataset:
    """The samples of several data sets as one; UsageError where these do not fit together."""
    kinds = {type(data).pooled.__func__: type(data) for data in datasets}
    if len(kinds) > 1:
        names = " and ".join(kind.__name__ for kind in kinds.values())
        raise UsageError(f"the samples of {names} do not make one data set to be cut into folds")
    return next(iter(kinds.values())).pooled(datasets)
