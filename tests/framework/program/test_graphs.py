"""Random graphs are rewritten and planned without a refusal and compute the same; rewriting ends."""

from __future__ import annotations

import pytest

from tests.fuzzing import PARTS, require_clean

MODULE = "tests.framework.program.graphs"


def test_some_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PDL_FUZZ_SEED", "0")
    assert require_clean(MODULE, 300, 0)["right"] > 250


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_many_graphs(part: int) -> None:
    """Other numbers every day."""
    assert require_clean(MODULE, 2000, part)["right"] > 1700
