"""Bodies of all ops on changed attributes and inputs, between pages of memory that may not be touched."""

from __future__ import annotations

import pytest

from tests.framework.ops.hostile import inputs_changed
from tests.fuzzing import PARTS, require_clean

MODULE = "tests.framework.ops.hostile"


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_bodies_between_guarded_pages(part: int) -> None:
    """Other numbers every day."""
    assert require_clean(MODULE, 20_000, part)["ran"] > 5000


@pytest.mark.slow
def test_every_input_changed_in_every_way() -> None:
    assert require_clean(MODULE, len(inputs_changed()), None, "inputs")["ran"] > 5000
