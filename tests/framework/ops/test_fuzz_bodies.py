"""Bodies of all ops on changed attributes and inputs, between pages of memory that may not be touched."""

from __future__ import annotations

import pytest

from tests.fuzzing import PARTS, require_clean


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_bodies_between_guarded_pages(part: int) -> None:
    """Other numbers every day."""
    assert require_clean("tests.framework.ops.hostile", 20_000, part)["ran"] > 5000
