"""Recipes for files of clicks that users bring."""

from __future__ import annotations

from pathlib import Path

import pytest

import pdl
from pdl.errors import DataError, UsageError
from pdl.workflow.new_recipe import init
from pdl_rec.data import standin


def events(path: Path, names: tuple[str, ...], *, sessions: int = 480, scale: int = 1, separator: str = ",") -> Path:
    rows = [separator.join(names)]
    for number, items, times in standin.draw("clicks", sessions):
        for item, time in zip(items, times, strict=True):
            rows.append(separator.join([f"v{number}", f"p{item}", str(time * scale)][: len(names)]))
    path.write_text("\n".join(rows) + "\n")
    return path


@pytest.mark.parametrize(
    ("names", "scale", "separator", "rule"),
    [
        (("visitor_id", "productId", "event_time"), 1000, ",", "holdout"),
        (("SessionId", "ItemId", "Time"), 1, "\t", "holdout"),
        (("user", "sku"), 1, ";", "ratios"),
        (("visitor", "product", "clicked_at"), 1, ",", "holdout"),
    ],
)
def test_recipe_cuts_the_file_into_three(tmp_path, names, scale, separator, rule):
    data = events(tmp_path / "it's clicks.csv", names, scale=scale, separator=separator)
    cfg = pdl.config.load(init("rec.next_item", data=data, out=tmp_path / "r.yaml"))
    assert rule in cfg["data"]["train"]
    parts = {split: pdl.config.build(cfg["data"][split]) for split in ("train", "val", "test")}
    sizes = {split: len(part) for split, part in parts.items()}
    assert sum(sizes.values()) == 480
    assert min(sizes.values()) >= 20
    assert sizes["train"] > 300


def test_recipe_trains(tmp_path):
    data = events(tmp_path / "clicks.csv", ("session", "item", "timestamp"))
    cfg = pdl.config.load(init("rec.next_item", data=data, out=tmp_path / "r.yaml"), ["train.epochs=1"])
    result = pdl.workflow.train(cfg, run=tmp_path / "run", progress=False)
    assert result.metrics["test/recall@20"] > 0.35  # a third of the 60 items by chance


def test_a_line_for_each_session_is_recognised(tmp_path):
    lines = [" ".join(f"p{item}" for item in items) for _, items, _ in standin.draw("clicks", 480)]
    data = tmp_path / "sessions.txt"
    data.write_text("\n".join(lines) + "\n")
    cfg = pdl.config.load(init("rec.next_item", data=data, out=tmp_path / "r.yaml"), ["train.epochs=1"])
    assert cfg["data"]["train"]["_target_"] == "pdl_rec.data.PairFile"
    result = pdl.workflow.train(cfg, run=tmp_path / "run", progress=False)
    assert result.metrics["test/recall@20"] > 0.35  # a third of the 60 items by chance
    (tmp_path / "pairs.txt").write_text("p1 p2\tp3\np1\tp2\n" * 40)
    with pytest.raises(UsageError, match="which column holds sessions"):
        init("rec.next_item", data=tmp_path / "pairs.txt", out=tmp_path / "s.yaml")


def test_what_cannot_be_told_is_asked(tmp_path):
    (tmp_path / "a.csv").write_text("a,item\n1,2\n")
    with pytest.raises(UsageError, match=r"which column holds sessions\? its first line says a, item"):
        init("rec.next_item", data=tmp_path / "a.csv", out=tmp_path / "r.yaml")
    with pytest.raises(UsageError, match="name the file"):
        init("rec.next_item", data=tmp_path, out=tmp_path / "r.yaml")
    few = events(tmp_path / "few.csv", ("session", "item", "time"), sessions=9)
    with pytest.raises(DataError, match="at least 20"):
        init("rec.next_item", data=few, out=tmp_path / "r.yaml")
    assert not (tmp_path / "r.yaml").exists()
