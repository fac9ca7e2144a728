"""Random ONNX graphs are imported without a refusal and compute what ONNX Runtime does."""

from __future__ import annotations

import pytest

from tests.fuzzing import PARTS, require_clean

pytest.importorskip("onnxruntime", reason="needs the package onnxruntime: pip install onnxruntime")
MODULE = "tests.framework.onnx.graphs"


def test_some_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PDL_FUZZ_SEED", "0")
    assert require_clean(MODULE, 40, 0)["program"] > 30


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_many_graphs(part: int) -> None:
    """Other numbers every day."""
    counts = require_clean(MODULE, 2000, part)
    assert counts["program"] > 1700
    assert counts.get("wrong at nothing", 0) + counts.get("refused at nothing", 0) < 10
