"""Baselines against their definitions, event by event, and against the numbers that others measured on RSC15-100k."""

from __future__ import annotations

import csv
import gzip
import math
import os
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from pdl.errors import ConfigError, UsageError
from pdl_rec.baselines import (
    BASELINES,
    VSKNN,
    AssociationRules,
    Baseline,
    ItemKNN,
    Popularity,
    SequentialRules,
    baselines,
    measure,
)
from pdl_rec.data.sessions import Sessions
from pdl_rec.metrics import Ranking

RNG = np.random.default_rng(8)
ITEMS = 12


def sessions_of(rows: list[list[int]]) -> Sessions:
    lengths = [len(row) for row in rows]
    return Sessions(
        np.array([item for row in rows for item in row], np.int64),
        np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        np.arange(sum(lengths), dtype=np.float64),
        np.arange(len(rows)),
    )


ROWS = [RNG.integers(0 if i % 4 == 0 else 1, ITEMS + 1, RNG.integers(1, 9)).tolist() for i in range(60)]
QUERIES = [RNG.integers(1, ITEMS + 1, n).tolist() for n in (1, 2, 3, 5, 5, 8)] + [[]]
CLEAN = [[item for item in row if item] for row in ROWS]


def rule_scores(query: list[int], kind: str) -> Counter[int]:
    found: Counter[int] = Counter()
    for row in CLEAN if query else []:
        for i, a in enumerate(row):
            for j, b in enumerate(row):
                if a != query[-1] or i == j:
                    continue
                if kind == "sequential" and 0 < j - i <= 10:
                    found[b] += 1 / (j - i)  # type: ignore[assignment]
                if kind == "association":
                    found[b] += 1
    return found


def knn_scores(query: list[int]) -> Counter[int]:
    holding = [set(row) for row in CLEAN]
    count = Counter(item for row in holding for item in row)
    found: Counter[int] = Counter()
    for row in holding if query else []:
        for item in row - {query[-1]} if query[-1] in row else ():
            found[item] += 1 / math.sqrt((count[item] + 20) * (count[query[-1]] + 20))  # type: ignore[assignment]
    return found


def session_knn_scores(query: list[int], k: int, sample: int) -> Counter[int]:
    last = {item: i for i, item in enumerate(query)}
    near = [(set(row) & set(query), set(row)) for row in reversed(CLEAN) if set(row) & set(query)][:sample]
    weighed = [
        (sum((last[item] + 1) / len(query) for item in shared) / math.sqrt(len(row) * len(last)), shared, row)
        for shared, row in near
    ]
    found: Counter[int] = Counter()
    for similarity, shared, row in sorted(weighed, key=lambda each: -each[0])[:k]:
        decay = max(0, 1 - 0.1 * min(len(query) - 1 - last[item] for item in shared))
        for item in row:
            found[item] += similarity * decay  # type: ignore[assignment]
    return found


@pytest.mark.parametrize(
    ("baseline", "score"),
    [
        (Popularity(), lambda query: Counter(item for row in CLEAN for item in row)),
        (SequentialRules(), lambda query: rule_scores(query, "sequential")),
        (AssociationRules(), lambda query: rule_scores(query, "association")),
        (ItemKNN(), knn_scores),
        (VSKNN(k=7, sample_size=15), lambda query: session_knn_scores(query, 7, 15)),
    ],
    ids=list(BASELINES),
)
def test_scores_are_their_definitions(baseline: Baseline, score: object) -> None:
    width = max(map(len, QUERIES))
    queries = np.array([query + [0] * (width - len(query)) for query in QUERIES], np.int64)
    found = baseline.fit(sessions_of(ROWS), ITEMS).scores(queries)
    assert found.shape == (len(QUERIES), ITEMS + 1)
    assert found.dtype == np.float32
    for row, query in zip(found, QUERIES, strict=True):
        want = score(query)  # type: ignore[operator]
        np.testing.assert_allclose(row, [want[item] for item in range(ITEMS + 1)], rtol=2e-6)


def test_of_equal_rules_the_item_seen_last_comes_first() -> None:
    rows = [[1, 4], [1, 2], [1, 3], [5, 4], [1, 5], [1, 5]]
    scores = SequentialRules().fit(sessions_of(rows), 5).scores(np.array([[1, 0]]))[0]
    assert np.argsort(-scores)[:4].tolist() == [5, 4, 3, 2]


def test_only_so_many_neighbours_score() -> None:
    found = ItemKNN(neighbours=2).fit(sessions_of(ROWS), ITEMS).scores(np.arange(1, ITEMS + 1)[:, None])
    assert ((found > 0).sum(axis=1) == 2).all()


def test_they_are_measured_by_the_protocol_that_is_asked_for() -> None:
    train, test = sessions_of(ROWS), sessions_of([row for row in CLEAN[:20] if len(row) > 1])
    options = {"ties": "optimistic", "self_recommendation": False}
    found = baselines(train, test, ITEMS, names=["popularity"], ranking=lambda: Ranking((2, 4), **options))  # type: ignore[arg-type]
    ranking = Ranking((2, 4), **options)  # type: ignore[arg-type]
    assert found == {"popularity": measure(Popularity().fit(train, ITEMS), test, ranking)}
    assert ranking.rows == len(test.items) - len(test)
    with pytest.raises(ConfigError, match="'best' is none of popularity"):
        baselines(train, test, ITEMS, names=["best"])
    with pytest.raises(UsageError, match="beyond num_items=3"):
        Popularity().fit(train, 3)


def clicks(path: Path, numbers: dict[str, int]) -> Sessions:
    with gzip.open(path, "rt") as file:
        rows = [(int(r["SessionId"]), float(r["Time"]), r["ItemId"]) for r in csv.DictReader(file, delimiter="\t")]
    rows.sort(key=lambda row: row[:2])
    names, offsets = np.unique([row[0] for row in rows], return_index=True)
    items = np.array([numbers.setdefault(row[2], len(numbers) + 1) for row in rows])
    return Sessions(items, np.append(offsets, len(rows)), np.array([row[1] for row in rows]), names)


@pytest.mark.slow
def test_they_reproduce_what_others_measured() -> None:
    """RSC15-100k, every click after the first of each test session, full ranking, repeats allowed."""
    folder = Path(os.environ.get("PDL_DATA", "")) / "rec"
    if not (folder / "yoochoose100k_test.txt.gz").exists():
        pytest.skip("PDL_DATA/rec has no yoochoose100k")
    numbers: dict[str, int] = {}
    train, test = (clicks(folder / f"yoochoose100k_{part}.txt.gz", numbers) for part in ("train_full", "test"))
    found = baselines(train, test, len(numbers), ranking=lambda: Ranking((20,)))
    assert found["popularity"]["recall@20"] == pytest.approx(0.0894, abs=0.0005)
    for name, recall, mrr in [
        ("sequential_rules", 0.6189, 0.3482),
        ("association_rules", 0.6333, 0.3279),
        ("vs_knn", 0.6806, 0.3456),
    ]:
        assert found[name]["recall@20"] == pytest.approx(recall, abs=0.005), name
        assert found[name]["mrr@20"] == pytest.approx(mrr, abs=0.005), name
