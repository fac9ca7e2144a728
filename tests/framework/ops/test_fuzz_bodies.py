"""Bodies of all ops on changed attributes and inputs, between pages of memory that may not be touched."""

from __future__ import annotations

import datetime

import pytest

from tests.framework.ops.test_ranges import said_by

COUNT = 20_000


@pytest.mark.slow
@pytest.mark.parametrize("part", range(5))
def test_bodies_between_guarded_pages(part: int) -> None:
    """Other numbers every day; one that fails is shown by ``python -m tests.framework.ops.hostile NUMBER 1 one``."""
    first = (datetime.date.today().toordinal() * 5 + part) * COUNT
    found = said_by("tests.framework.ops.hostile", str(first), str(COUNT))
    assert found["crashed"] == found["hung"] == [], f"python -m tests.framework.ops.hostile NUMBER 1 one: {found}"
