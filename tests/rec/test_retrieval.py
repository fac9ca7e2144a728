"""Retrieval of items by their vectors, exactly and through FAISS."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from pdl.errors import ConfigError, ShapeError, UsageError
from pdl.ranking import Lists
from pdl_rec.retrieval import ItemIndex

RNG = np.random.default_rng(2)
TABLE, BIAS = RNG.standard_normal((3001, 16)).astype(np.float32), RNG.standard_normal(3001).astype(np.float32)
QUERIES = RNG.standard_normal((50, 16)).astype(np.float32)
SEEN = Lists.of_rows(RNG.integers(0, 3001, (50, 200)))


@pytest.mark.parametrize("bias", [None, BIAS])
@pytest.mark.parametrize("excluded", [None, SEEN])
def test_the_exact_index_finds_the_best(bias: np.ndarray | None, excluded: Lists | None) -> None:
    scores, items = ItemIndex(TABLE, bias).search(QUERIES, 10, excluded=excluded)
    all_scores = QUERIES @ TABLE.T + (0 if bias is None else bias)
    all_scores[:, 0] = -np.inf
    for r in range(50 if excluded is not None else 0):
        all_scores[r, SEEN[r]] = -np.inf
    np.testing.assert_allclose(scores, -np.sort(-all_scores, axis=1)[:, :10], rtol=2e-5)
    np.testing.assert_allclose(np.take_along_axis(all_scores, items, axis=1), scores, rtol=2e-5)


@pytest.mark.parametrize("bias", [None, BIAS])
@pytest.mark.parametrize("excluded", [None, SEEN])
def test_the_graph_finds_nearly_all_of_them(bias: np.ndarray | None, excluded: Lists | None) -> None:
    pytest.importorskip("faiss", reason="faiss-cpu is not installed")
    index = ItemIndex(TABLE, bias, method="hnsw")
    assert index.recall(QUERIES, 10, excluded=excluded) > 0.9
    scores, items = index.search(QUERIES, 10, excluded=excluded)
    own = np.take_along_axis(QUERIES @ TABLE.T + (0 if bias is None else bias), items, axis=1)
    np.testing.assert_allclose(own, scores, rtol=1e-4, atol=1e-5)
    assert (np.diff(scores, axis=1) <= 0).all()
    assert ItemIndex(TABLE[:4], method="hnsw").search(QUERIES, 5)[1][:, 3:].tolist() == [[0, 0]] * 50


def test_faults_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match="method='fast'"):
        ItemIndex(TABLE, method="fast")  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="are not"):
        ItemIndex(TABLE, BIAS[:7])
    with pytest.raises(ShapeError, match="do not fit vectors of 16"):
        ItemIndex(TABLE).search(QUERIES[:, :3], 5)
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(UsageError, match=r"pip install pdl-rec\[ann\]"):
        ItemIndex(TABLE, method="hnsw")
