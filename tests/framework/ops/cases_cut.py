"""Ops of arrays that are cut over processes, on a process that stands alone."""

from __future__ import annotations

import numpy as np

from pdl.ops.base import apply
from pdl.ops.cut import JoinParts, OwnRows, SpreadOver, SumOver, TakePart
from pdl.testing import Case, draws

G, _ = draws(57)


def sum_over(x):
    return apply(SumOver(), x)


def spread_over(x):
    return apply(SpreadOver(), x)


def join_parts(x, axis, groups):
    return apply(JoinParts(axis, 1, 0, groups), x)


def take_part(x, axis, groups):
    return apply(TakePart(axis, 1, 0, groups), x)


def own_rows(index, first, count, rows, ignored):
    return apply(OwnRows(first, count, rows, ignored), index)


def own_rows_in_numpy(index, first, count, rows, ignored):
    own = (index >= first) & (index < first + count) & (index != ignored)
    return np.where(own, index - first, 0), own


CASES = [
    Case(sum_over, [G(3, 2)], lambda x: x),
    Case(spread_over, [G(3, 2)], lambda x: x),
    Case(join_parts, [G(2, 6)], lambda x, axis, groups: x, {"axis": 1, "groups": 3}),
    Case(take_part, [G(4, 2)], lambda x, axis, groups: x, {"axis": 0, "groups": 2}),
    Case(
        own_rows, [np.array([[0, 4, -1], [5, 9, 6]])], own_rows_in_numpy,
        {"first": 4, "count": 3, "rows": 10, "ignored": -1},
    ),
]  # fmt: skip
