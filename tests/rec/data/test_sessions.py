"""Sessions in columns: cutting, taking and binding lose nothing and keep order; files give what they hold."""

from __future__ import annotations

import gzip
import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdl.data import Few, Subset
from pdl.errors import ConfigError, UsageError
from pdl.vocabulary import Vocabulary
from pdl_rec.data import PairFile, SessionFile, Sessions, bind, sessions_of, vocabulary_of
from pdl_rec.data.splits import cut

EVENTS = """session_id,item_id,timestamp
20,a,100
3,b,50
20,b,90
3,a,50
3,c,40
100,a,300
100,d,200
7,e,10
"""


@pytest.fixture
def events(tmp_path: Path) -> Path:
    path = tmp_path / "events.csv"
    path.write_text(EVENTS)
    return path


def names(dataset: Any) -> dict[Any, list[str]]:
    """session -> names of its items."""
    raw = dataset.raw
    return {raw.names[i].item(): [dataset.known[k - 1] for k in raw.session(i)] for i in range(len(raw))}


def test_events_are_grouped_and_sorted(events: Path) -> None:
    data = SessionFile(events)
    assert names(data) == {3: ["c", "b", "a"], 20: ["b", "a"], 100: ["d", "a"]}
    assert list(names(data)) == [3, 20, 100]
    assert data.raw.times is not None
    assert data.raw.times.tolist() == [40, 50, 50, 90, 100, 200, 300]
    assert list(names(SessionFile(events, min_length=1))) == [3, 7, 20, 100]
    assert names(SessionFile(events, time=None))[20] == ["a", "b"]


def test_binding_numbers_items_and_changes_no_length(events: Path) -> None:
    data = SessionFile(events)
    with pytest.raises(UsageError, match="call bind"):
        data[0]
    vocabulary = Vocabulary(["b", "c"])
    bind(Few(data, 2), {"items": vocabulary})
    assert [data[i]["items"].tolist() for i in range(len(data))] == [[2, 1], [1], []]
    assert sessions_of(data).names.tolist() == [3]
    kept = SessionFile(events, unseen="keep")
    kept.bind({"items": vocabulary})
    assert [kept[i]["items"].tolist() for i in range(len(kept))] == [[2, 1, 0], [1, 0], [0, 0]]
    bind(data, {"items": vocabulary_of(data)})
    assert sessions_of(Subset(Few(data, 3), [2, 0])).names.tolist() == [100, 3]


def test_vocabulary_is_of_the_samples_that_are_left(events: Path) -> None:
    data = SessionFile(events)
    assert vocabulary_of(data).names == data.item_names() == ["a", "b", "c", "d"]
    assert vocabulary_of(data, min_count=2).names == ["a", "b"]
    assert vocabulary_of(Subset(data, [2])).names == ["a", "d"]


def test_prefixes_are_the_newest_known_items() -> None:
    sessions = Sessions(np.array([5, 0, 6, 7, 0, 8]), np.array([0, 4, 6]), None, np.arange(2))
    rows, ends = sessions.targets()
    assert (rows.tolist(), ends.tolist()) == ([0, 0, 0, 1], [1, 2, 3, 5])
    assert sessions.prefixes(rows, ends).tolist() == [[5, 0], [5, 0], [5, 6], [0, 0]]
    assert sessions.prefixes(rows, ends, 1).tolist() == [[5], [5], [6], [0]]


@pytest.mark.parametrize(
    ("rules", "train", "val", "test"),
    [
        ({"holdout": {"test": 100}}, [3, 20], [], [100]),
        ({"holdout": {"val": "150s", "test": "1.5m"}}, [3], [20], [100]),
        ({"holdout": {"val": 250}}, [], [3, 20, 100], []),
        ({"ratios": {"train": 0.4, "val": 0.3, "test": 0.3}, "seed": 4}, None, None, None),
    ],
    ids=str,
)
def test_rules_put_every_session_into_one_split(
    events: Path, rules: dict[str, Any], train: list[int] | None, val: list[int], test: list[int]
) -> None:
    given_splits = [s for s in ("train", "val", "test") if s == "train" or s in next(iter(rules.values()))]
    found = [SessionFile(events, split=split, **rules) for split in given_splits]
    assert sorted(key for part in found for key in names(part)) == [3, 20, 100]
    if train is not None:
        wanted = dict(zip(("train", "val", "test"), (train, val, test), strict=True))
        assert [list(names(part)) for part in found] == [wanted[s] for s in given_splits]


def test_leave_one_out(events: Path) -> None:
    parts = {split: SessionFile(events, split=split, leave_one_out=True) for split in ("train", "val", "test")}
    assert names(parts["test"]) == names(SessionFile(events))
    assert names(parts["train"])[3] == ["c"]
    for split, target in (("val", "b"), ("test", "a")):
        data, vocabulary = parts[split], vocabulary_of(parts[split])
        data.bind({"items": vocabulary})
        sessions = sessions_of(data)
        rows, ends = sessions.targets()
        assert len(set(rows.tolist())) == len(rows)
        assert vocabulary.decode(sessions.items[ends[0]]) == target


tables = st.lists(
    st.tuples(st.integers(1, 9), st.integers(1, 6), st.integers(0, 50)), min_size=1, max_size=60
)  # session, item, time


@settings(max_examples=60)
@given(
    tables, st.sampled_from([{"ratios": {"train": 0.5, "val": 0.3, "test": 0.2}}, {"holdout": {"val": 9, "test": 9}}])
)
def test_no_event_is_lost_or_twice(rows: list[tuple[int, int, int]], rule: dict[str, Any]) -> None:
    data = np.array(sorted(rows, key=lambda row: (row[0], row[2])))
    found, counts = np.unique(data[:, 0], return_counts=True)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    whole = Sessions(data[:, 1], offsets, data[:, 2].astype(float), found)
    parts = [cut("X", whole, split, **rule) for split in ("train", "val", "test")]
    assert sorted(np.concatenate([part.names for part in parts]).tolist()) == found.tolist()
    for part in parts:
        again = {name: (whole.session(i), i) for i, name in enumerate(found.tolist())}
        for i, name in enumerate(part.names.tolist()):
            assert part.session(i).tolist() == again[name][0].tolist()
    ends = [part.times[part.offsets[1:] - 1] for part in parts if part.times is not None and len(part)]
    if "holdout" in rule:
        assert all(before.max() < after.min() for before, after in itertools.pairwise(ends))
    kept = whole.where(whole.items % 2 == 0)
    assert kept.items.tolist() == [item for item in whole.items.tolist() if item % 2 == 0]
    assert kept.lengths.tolist() == [int((whole.session(i) % 2 == 0).sum()) for i in range(len(whole))]
    left = [cut("X", whole, split, leave_one_out=True) for split in ("train", "val", "test")]
    assert sum(len(part.items) for part in left[:1]) == sum(max(n - 2, 0) for n in counts.tolist())
    for part, without in zip(left[1:], (1, 0), strict=True):
        events = part.targets()[1]
        expected = [whole.session(i)[-1 - without] for i, n in enumerate(counts.tolist()) if n - without >= 2]
        assert part.items[events].tolist() == expected


def test_pairs(tmp_path: Path) -> None:
    (tmp_path / "train.txt").write_text("5 7 9\n\n9 9\n5\n")
    (tmp_path / "test.txt.gz").write_bytes(gzip.compress(b"5 7\t9\n7 11 \t5\n11\t7\n"))
    train, test = PairFile(tmp_path / "train.txt"), PairFile(tmp_path / "test.txt.gz", unseen="keep")
    assert names(train) == {1: ["5", "7", "9"], 2: ["9", "9"]}
    assert names(test) == {1: ["5", "7", "9"], 2: ["7", "11", "5"], 3: ["11", "7"]}
    for data in (train, test):
        bind(data, {"items": vocabulary_of(train)})
    assert len(sessions_of(train).targets()[0]) == 3
    sessions = sessions_of(test)
    rows, ends = sessions.targets()
    assert sessions.prefixes(rows, ends).tolist() == [[1, 2], [2, 0], [0, 0]]
    assert sessions.items[ends].tolist() == [3, 1, 2]


def test_two_rules_are_refused(events: Path) -> None:
    with pytest.raises(ConfigError, match="ratios and leave_one_out are two rules"):
        SessionFile(events, split="train", ratios={"train": 1.0}, leave_one_out=True)
    with pytest.raises(ConfigError, match="say which part"):
        SessionFile(events, ratios={"train": 0.9})
    with pytest.raises(ConfigError, match="'soon' is no span of time"):
        SessionFile(events, split="val", holdout={"val": "soon"})
