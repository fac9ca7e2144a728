"""Damaged files of every kind that is no program: read, or refused by an error of pdl's own, and nothing else."""

from __future__ import annotations

import pytest

from tests.fuzzing import PARTS, require_clean
from tests.hostile_files import KINDS

#: files of a part: recipes are composed by hydra, which takes its time
COUNTS = {"weights": 1000, "recipes": 60, "images": 1000, "data": 1000}


@pytest.mark.parametrize("kind", KINDS)
def test_some_damaged_files(kind: str) -> None:
    assert require_clean("tests.hostile_files", 5 if kind == "recipes" else 40, 0, kind)["refused"]


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("kind", KINDS)
def test_damaged_files(kind: str, part: int) -> None:
    """Other numbers every day."""
    counts = require_clean("tests.hostile_files", COUNTS[kind], part, kind)
    assert counts["refused"]
    assert counts["read"]
