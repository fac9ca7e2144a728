"""`pdl init rec.matching`: recipes for tables of users and items that people bring."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import pdl
from pdl.errors import ConfigError, DataError, UsageError
from pdl.workflow.new_recipe import init
from pdl_rec.data import InteractionFile, standin


def table(path: Path, names: tuple[str, ...], form: str = "seconds", users: int = 300) -> Path:
    """Users with items, a number and a time: `form` seconds, ms or iso."""
    lines = [",".join(names)]
    for number, items, times in standin.draw("clicks", users):
        for item, time in zip(items, times, strict=True):
            iso = datetime.fromtimestamp(time, UTC).strftime("%Y-%m-%d %H:%M:%S")
            shown = {"seconds": str(time), "ms": str(time * 1000), "iso": iso}[form]
            lines.append(",".join([f"c{number}", f"p{item}", "1.5", shown][: len(names)]))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize(
    ("names", "form", "said"),
    [
        (("customer_id", "sku", "amount", "bought_at"), "iso", "times bought_at (s)"),
        (("reader", "isbn", "stars", "loan"), "ms", "times loan (ms)"),
        (("user", "item"), "seconds", "without times"),
    ],
)
def test_the_recipe_trains_as_it_is(tmp_path: Path, names: tuple[str, ...], form: str, said: str) -> None:
    data = table(tmp_path / "it's bought.csv", names, form)
    written = init("rec.matching", data=data, out=tmp_path / "r.yaml")
    assert said in written.read_text()
    assert ("order: time" in written.read_text()) == (len(names) > 2)
    recipe = pdl.config.load(written, ["train.epochs=5"])
    result = pdl.workflow.train(recipe, run=tmp_path / "run", progress=False)
    assert result.metrics["test/recall@20"] > 0.3
    assert "popularity" in result.baselines


def test_what_cannot_be_learned_from(tmp_path: Path) -> None:
    data = table(tmp_path / "t.csv", ("who", "what"))
    with pytest.raises(UsageError, match="which column holds users and items"):
        init("rec.matching", data=data, out=tmp_path / "r.yaml")
    with pytest.raises(DataError, match="at least 100"):
        init("rec.matching", data=table(data, ("user", "item"), users=10), out=tmp_path / "r.yaml")


def test_interaction_files(tmp_path: Path) -> None:
    data = table(tmp_path / "t.csv", ("user", "item", "rating", "time"))
    columns: Any = {"user": "user", "item": "item"}
    parts = [InteractionFile(data, **columns, split=s, ratios={"train": 0.8, "test": 0.2}) for s in ("train", "test")]
    assert sum(map(len, parts)) == len(InteractionFile(data, **columns))
    assert parts[1].raw.known is not None
    assert len(InteractionFile(data, **columns, rating="rating", min_rating=2.0)) == 0
    for wrong, said in (({"min_rating": 1.0}, "rating="), ({"ratios": {"train": 1.0}}, "split="),
                        ({"rating": "user"}, "different columns")):  # fmt: skip
        with pytest.raises(ConfigError, match=said):
            InteractionFile(data, **columns, **wrong)
