"""Labelled rows: recipes for tables that people bring, what they reach, and what is said of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import pdl
from pdl.cli import main
from pdl.errors import ConfigError, DataError, UsageError
from pdl.train import Recipe
from pdl.workflow.new_recipe import init
from pdl_rec import RowPrediction
from pdl_rec.click_through.fields import FieldSpec

ROWS = 1000


def table(path: Path, target: str) -> Path:
    """Houses, with columns of all kinds; the target follows from two of them."""
    rng = np.random.default_rng(0)
    area, town = rng.uniform(30, 200, ROWS), rng.choice(["Ulm", "Bonn", "Köln"], ROWS)
    price = area * 3 + np.where(town == "Ulm", 150, 0) + rng.normal(0, 10, ROWS)
    last = {"price": [f"{each:.1f}" for each in price], "class": np.digitize(price, [250, 450]).astype(str).tolist(),
            "label": np.where(price > 350, "dear", "cheap").tolist()}[target]  # fmt: skip
    lines = [f"id,{target},living area (m2),town,listed,note,country"]
    for i in range(ROWS):
        lines.append(f"{i},{last[i]},{area[i]:.1f},{town[i]},2024-01-{i % 28 + 1:02},text {i},Germany")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("target", "metric", "least"),
    [("price", "test/r2", 0.8), ("class", "test/accuracy", 0.8), ("label", "test/auc", 0.9)],
)
def test_the_recipe_trains_as_it_is(tmp_path: Path, target: str, metric: str, least: float) -> None:
    data = table(tmp_path / "it's houses.csv", target)
    written = init("rec.rows", data=data, out=tmp_path / "r.yaml")
    text = written.read_text()
    assert "living area (m2), town" in text
    assert "buckets" in text
    for name, why in (("id", "numbers the rows"), ("listed", "times"), ("note", "a text for each row"),
                      ("country", "one value")):  # fmt: skip
        assert f"{name} ({why})" in text
    result = pdl.workflow.train(pdl.config.load(written, ["train.epochs=40"]), run=tmp_path / "run", progress=False)
    assert result.metrics[metric] > least
    assert len(result.baselines) == (2 if target == "price" else 3)
    assert main(["check", "-c", str(written)]) == 0


def test_a_run_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recipe = pdl.config.load(init("rec.rows", data=table(tmp_path / "t.csv", "price"), out=tmp_path / "r.yaml"))
    pdl.workflow.train(recipe, run=tmp_path / "run", progress=False)
    row = "living area (m2)=100,town=Ulm"
    for what in ("run", "run/model.pdl"):
        assert main(["predict", str(tmp_path / what), "--row", row, "--json"]) == 0
        answer = json.loads(capsys.readouterr().out)
        assert "price" in json.dumps(answer)
    session = pdl.runtime.load(tmp_path / "run/model.pdl")
    assert abs(float(session({"living area (m2)": 100, "town": "Ulm"})["price"]) - 450) < 60
    assert main(["eval", str(tmp_path / "run/model.pdl")]) == 0


def test_what_cannot_be_learned_from(tmp_path: Path) -> None:
    data = tmp_path / "t.csv"
    data.write_text("a,b\n" + "1,2\n" * 60)
    with pytest.raises(UsageError, match="no column to learn from"):
        init("rec.rows", data=data, out=tmp_path / "r.yaml")
    data.write_text("a,label\n" + "1,x\n2,y\n" * 40 + "3,\n")
    with pytest.raises(UsageError, match="is empty in row 80"):
        init("rec.rows", data=data, out=tmp_path / "r.yaml")
    data.write_text("a,label\n1,2\n")
    with pytest.raises(DataError, match="at least 50"):
        init("rec.rows", data=data, out=tmp_path / "r.yaml")
    with pytest.raises(ConfigError, match="what is to be predicted"):
        RowPrediction(fields={"label": FieldSpec()}, target="label")


def test_a_class_that_a_split_lacks_is_warned_of(tmp_path: Path) -> None:
    data = tmp_path / "t.csv"
    data.write_text("a,label\n" + "".join(f"{i % 7},{'xy'[i % 7 > 3]}\n" for i in range(80)) + "3,rare\n")
    recipe = Recipe(pdl.config.load(init("rec.rows", data=data, out=tmp_path / "r.yaml"), ["train.epochs=2"]))
    result = pdl.workflow.train(recipe, run=tmp_path / "run", progress=False)
    assert [each for each in result.warnings if "no sample of one class" in each]
