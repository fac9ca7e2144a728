"""What `pdl check` finds in data of recommendation, and that sound data passes."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdl.data import Fault
from pdl_rec.data import Atomic, PairFile, SessionFile, check
from pdl_rec.data.standin import draw

Row = tuple[Any, Any, Any]


@cache
def rows(name: str) -> list[Row]:
    sessions = draw(name, 400 if name == "train" else 120)
    return [
        (number, f"i{item}", at) for number, items, times in sessions for item, at in zip(items, times, strict=True)
    ]


def write(path: Path, events: list[Row]) -> Path:
    path.write_text("session_id,item_id,timestamp\n" + "".join(f"{s},{i},{t}\n" for s, i, t in events))
    return path


def found(folder: Path, train: list[Row], test: list[Row], **arguments: Any) -> list[Fault]:
    paths = {split: write(folder / f"{split}.csv", events) for split, events in (("train", train), ("test", test))}
    return check({split: (lambda path=path: SessionFile(path, **arguments)) for split, path in paths.items()})


def text(faults: list[Fault]) -> str:
    return "\n".join(f"{fault.severity} {fault}" for fault in faults)


def test_sound_data_passes(tmp_path: Path) -> None:
    assert found(tmp_path, rows("train"), rows("test")) == []


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        (lambda a, b: (a, b + a[:40]), r"error .*of \d+ sessions are in train too, event by event \(first: 1\)"),
        (lambda a, b: (a, [(s - 10**6, i, t) for s, i, t in b]), r"warning .*have the name of another one in train"),
        (lambda a, b: (a, [(s, i, t - 86400 * 5) for s, i, t in b]), r"warning .*begin before the last event of train"),
        (lambda a, b: (a, [(s, i + "x", t) if k < 50 else (s, i, t) for k, (s, i, t) in enumerate(b)]),
         r"warning .*items are not in train: 50 of \d+ events, which are left out"),
        (lambda a, b: ([(i, s, t) for s, i, t in a], b), r"error .*the columns seem swapped"),
        (lambda a, b: ([(k, i, t) for k, (s, i, t) in enumerate(a)], b), r"error .*none of its \d+ sessions is long"),
        (lambda a, b: ([(s, k, t) for k, (s, i, t) in enumerate(a)], b), r"error .*event has an item of its own"),
        (lambda a, b: ([(s, i, t * 1000) for s, i, t in a], b), r"error .*not in seconds; say unit: ms"),
        (lambda a, b: (a + a[:7], b), r"warning .*7 events too many: same session, item and time"),
        (lambda a, b: ([*a, (10**7, "i1", 1396400000)], b), r"warning .*1 of 401 sessions are too short"),
        (lambda a, b: (a[1::-1] + a[2:], b), r"warning .*1 event of \d+ stand behind a later one"),
        (lambda a, b: (a, [*b[:3], (1, "i1", "noon")]), r"error .*test.csv:5: .*: 'noon' is no number or time"),
        (lambda a, b: (a, []), r"error .*test.csv: the file has a header and no rows"),
    ],
)  # fmt: skip
def test_faults_of_sessions(
    tmp_path: Path, change: Callable[[list[Row], list[Row]], tuple[list[Row], list[Row]]], wanted: str
) -> None:
    faults = found(tmp_path, *change(rows("train"), rows("test")))
    assert re.search(wanted, text(faults)), text(faults)


def test_no_order_is_no_fault(tmp_path: Path) -> None:
    train = rows("train")
    shuffled = [train[i] for i in np.random.default_rng(0).permutation(len(train))]
    assert found(tmp_path, shuffled, rows("test")) == []


def test_rules_cut_without_faults(tmp_path: Path) -> None:
    path = write(tmp_path / "events.csv", rows("train"))
    for rule in ({"leave_one_out": True}, {"ratios": {"train": 0.7, "test": 0.3}}, {"holdout": {"test": "1d"}}):
        faults = check({split: SessionFile(path, split=split, **rule) for split in ("train", "test")})  # type: ignore[arg-type]
        assert faults == [], rule


def test_pairs(tmp_path: Path) -> None:
    lines = [" ".join(map(str, items)) for _, items, _ in draw("train", 200)]
    (tmp_path / "train.txt").write_text("\n".join(lines))
    (tmp_path / "test.txt").write_text("\n".join(lines[:100]))
    train, test = PairFile(tmp_path / "train.txt"), PairFile(tmp_path / "test.txt")
    assert "are in train too, item by item" in text(check({"train": train, "test": test}))


def test_interactions(tmp_path: Path) -> None:
    header = "user_id:token\titem_id:token\ttimestamp:float\n"
    events = [f"u{k % 9}\ti{k // 9}\t{k}\n" for k in range(90)]
    (tmp_path / "a.inter").write_text(header + "".join(events))
    cut: dict[str, Any] = {"ratios": {"train": 0.8, "test": 0.2}}
    whole = check({split: Atomic(tmp_path, "a", split=split, **cut) for split in ("train", "test")})
    assert whole == []
    (tmp_path / "a.inter").write_text(header + "".join(events) + "u1\ti1\t99\nu8\tnew\t100\n")
    faults = check({split: Atomic(tmp_path, "a", split=split) for split in ("train", "test")})
    assert "2 of 3 items are not in train: 8 of 9 events" in text(faults)
    assert "repeat a user and an item of train" in text(faults)
