"""Damaged models of TensorFlow Lite and of Paddle: each gives a clear error or runs; none crashes, hangs, or takes the
machine's memory."""

from __future__ import annotations

import pytest

from tests.fuzzing import PARTS, require_clean

from .hostile_models import good, run

MODULE = "tests.framework.onnx.hostile_models"


def test_good_models_run() -> None:
    for files in good()[:9]:
        assert run(files) == "ran"


def test_damaged_models() -> None:
    counts = require_clean(MODULE, 250, None)
    assert counts["refused"] > 100
    assert counts["ran"] > 20


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_many_damaged_models(part: int) -> None:
    """Other files every day; how to see one that fails again is said."""
    assert require_clean(MODULE, 2000 // PARTS, part)["refused"] > 100
