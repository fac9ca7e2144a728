"""Tables that ship with pdl-rec."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Annotated, Literal

import numpy as np

from pdl.data.randomness import BatchRandom
from pdl.hints import Range
from pdl_rec.data.click_file import ClickFile

RATIOS = {"train": 0.7, "val": 0.1, "test": 0.2}
ADULT_TEST = 16_281  # rows of adult.test


def _file(name: str) -> Path:
    return Path(str(resources.files("pdl_rec.data") / "files" / name))


class Adult(ClickFile):
    """Census income (Becker & Kohavi, UCI, 1996; CC BY 4.0): 48,842 people, 14 columns, and `income`, <=50K or >50K.

    Columns age, workclass, fnlwgt, education, educational-num, marital-status, occupation, relationship, race, gender,
    capital-gain, capital-loss, hours-per-week, native-country; what is "?" there is missing.

    split  "test" is the official one (adult.test, 16,281 rows, the first of the file); of the 32,561 rows of adult.data
           a share of `val` is "val" and the rest "train", by a hash of the row's number and `seed`
    """

    def __init__(
        self,
        *,
        split: Literal["train", "val", "test"] = "train",
        val: Annotated[float, Range(0, below=1)] = 0.1,
        seed: Annotated[int, Range(0)] = 0,
    ) -> None:
        super().__init__(_file("adult.csv.gz"), split=split, seed=seed)
        self.ratios = {"train": 1 - val, "val": val}  # of adult.data

    def chosen(self, rows: np.ndarray) -> np.ndarray:
        """Those of these rows of the file that belong to the split."""
        if self.split == "test":
            return rows[rows < ADULT_TEST]
        rows = rows[rows >= ADULT_TEST]
        held = BatchRandom(self.seed, 0, rows).fork("split").uniform() >= (self.ratios or {})["train"]
        return rows[held if self.split == "val" else ~held]


class SyntheticClicks(ClickFile):
    """2,000 rows with the columns of the Criteo display advertising challenge, made by `tools/make_clicks.py`: `label`,
    13 counts I1 to I13, 26 names C1 to C26. To try that format and models on: no row is of anybody's log.

    split   train, val or test
    ratios  of the splits; by default 0.7, 0.1 and 0.2
    """

    def __init__(
        self, *, split: str = "train", ratios: Mapping[str, float] | None = None, seed: Annotated[int, Range(0)] = 0
    ) -> None:
        super().__init__(_file("synthetic_clicks.csv.gz"), split=split, ratios=ratios or RATIOS, seed=seed)
