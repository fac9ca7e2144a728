"""`Fold`: samples of one or several data sets, dealt out again for cross-validation."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np

from pdl.data.dataset import ConcatDataset, Dataset, Subset
from pdl.data.splits import of_fold, stratified_folds
from pdl.errors import ConfigError
from pdl.hints import Range


class Fold(Subset):
    """The samples of a split in k-fold cross-validation: those of `datasets` are one pool, which is cut into `folds`
    parts of equal size (up to one sample), each with the same share of every class where samples have classes.

    split     test: part `fold`; val: as `validate` says; train: all others
    validate  "inner": val is the next part; "held_out": val is the test part itself; None: there is no val
    seed      of the order in which samples are dealt out
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
    ) -> None:
        if fold >= folds:
            raise ConfigError(f"Fold: fold={fold} of {folds} folds; they are numbered from 0 to {folds - 1}")
        pool = ConcatDataset(datasets)
        if len(pool) < folds:
            raise ConfigError(f"Fold: {len(pool)} samples cannot be cut into {folds} folds")
        labels = np.zeros(len(pool), np.int64) if pool.labels is None else pool.labels
        super().__init__(pool, of_fold(stratified_folds(labels, folds, seed), split, fold, folds, validate))
