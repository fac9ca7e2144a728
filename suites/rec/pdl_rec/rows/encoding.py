"""Rows as arrays, with what is to be predicted of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from pdl.errors import DataError, listed
from pdl_rec.click_through.fields import Encoding, FieldSpec, Learned
from pdl_rec.data.columns import Columns, Text


@dataclass(frozen=True)
class Target:
    """The column to predict: a class, one of `classes`; or a number, where there are none."""

    column: str
    classes: Sequence[str] = ()


class RowEncoding(Encoding):
    """Columns to {"ids", "numbers", "label"}: label int64 [n] of a class, float32 [n] of a number."""

    def __init__(self, fields: Mapping[str, FieldSpec], target: Target, learned: Learned) -> None:
        super().__init__(fields, {}, learned)
        self.target = target
        self.classes = list(target.classes)

    @property
    def text(self) -> list[str]:
        own = [self.target.column] if self.classes else []
        return list(dict.fromkeys([*super().text, *own]))

    @property
    def numeric(self) -> list[str]:
        own = [] if self.classes else [self.target.column]
        return [name for name in dict.fromkeys([*super().numeric, *own]) if name not in self.text]

    def __call__(self, columns: Columns) -> dict[str, np.ndarray]:
        return {**self.inputs(columns), "label": self.targets(columns[self.target.column])}

    def targets(self, column: Text | np.ndarray) -> np.ndarray:
        """The column of the target as numbers; DataError for a row without one."""
        if self.classes:
            assert isinstance(column, Text)
            number = {name: k for k, name in enumerate(self.classes)}
            found = np.array([number.get(value, -1) for value in column.values] + [-1], np.int64)[column.first().codes]
            bad = np.flatnonzero(found < 0)
            what = f"expected {listed(self.classes)}"
        else:
            found = (column.numbers() if isinstance(column, Text) else column).astype(np.float32)
            bad, what = np.flatnonzero(~np.isfinite(found)), "expected a number"
        if len(bad):
            text = column.texts()[bad[0]] if isinstance(column, Text) else found[bad[0]]
            raise DataError(f"column {self.target.column!r} holds {text!r} in row {bad[0]} of {len(found)}; {what}: "
                            "correct the row, or remove it")  # fmt: skip
        return found
