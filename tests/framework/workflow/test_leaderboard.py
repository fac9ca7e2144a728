"""Several recipes in one table: trained over seeds, loaded where they have been, baselines among them."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from pdl.cli import main
from pdl.errors import UsageError
from pdl.workflow.leaderboards import Row, leaderboard, recipes
from pdl.workflow.result import Result

SMALL = """\
defaults: [/cv/classification, _self_]
model: {{_target_: pdl_cv.LeNet, image_size: 8, channels: [{channels}, 8]}}
data:
  train: {{_target_: pdl_cv.data.Digits, split: train}}
  val: {{_target_: pdl_cv.data.Digits, split: val}}
  test: {{_target_: pdl_cv.data.Digits, split: test}}
  transforms:
    train: [{{_target_: pdl.data.transforms.Normalize, mean: 0.3, std: 0.37}}]
    eval: [{{_target_: pdl.data.transforms.Normalize, mean: 0.3, std: 0.37}}]
  batch_size: 64
optim: {{lr: {lr}}}
train: {{epochs: 1, report: false, export: false}}
"""


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    pytest.importorskip("pdl_cv")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "good.yaml").write_text(SMALL.format(channels=8, lr=0.01))
    (tmp_path / "idle.yaml").write_text(SMALL.format(channels=4, lr=0.0))
    return tmp_path


@pytest.fixture
def baselines(monkeypatch: pytest.MonkeyPatch) -> None:
    from pdl_cv import Classification

    said = {"most frequent": {"accuracy": 0.1}, "all": {"accuracy": 2.0}}
    monkeypatch.setattr(Classification, "baselines", lambda self, cfg, datasets, split: said)


def test_from_recipes_to_a_table(files: Path, baselines: None, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["leaderboard", "-c", "idle.yaml", "good.yaml", "--seeds", "2", "train.log_every=7", "--runs", "made"]
    assert main([*words, "--markdown", "deep/board.md", "--json"]) == 0
    said = capsys.readouterr()
    board = json.loads(said.out)
    assert board["metrics"][0] == "test/accuracy"
    assert "test/loss" not in board["metrics"]
    assert [row["name"] for row in board["rows"]] == ["all", "good", "idle", "most frequent"]
    assert [row["baseline"] for row in board["rows"]] == [True, False, False, True]
    good = board["rows"][1]
    results = [Result.load(Path(f"made/good-seed{seed}/result.json")) for seed in (0, 1)]
    values = [result.metrics["test/accuracy"] for result in results]
    assert good["metrics"]["test/accuracy"]["values"] == values
    assert good["metrics"]["test/accuracy"]["std"] == pytest.approx(abs(values[0] - values[1]) / math.sqrt(2))
    assert good["parameters"] == results[0].parameters
    assert [result.seed for result in results] == good["seeds"] == [0, 1]
    assert said.err.count("training into made/") == 4
    page = Path("deep/board.md").read_text()
    assert page.splitlines()[0].startswith("| | test/accuracy |".replace("| |", "|  |"))
    assert f"{sum(values) / 2:.4f} ± {board['rows'][1]['metrics']['test/accuracy']['std']:.4f}" in page

    stamps = {path: path.stat().st_mtime_ns for path in Path("made").rglob("result.json")}
    Path("made/idle-seed1/result.json").unlink()
    assert main(words) == 0
    said = capsys.readouterr()
    assert said.err.count("loaded from") == 3
    assert said.err.count("going on in made/idle-seed1") == 1
    assert [line.split()[0] for line in said.out.splitlines()[1:]] == ["all", "good", "idle", "most"]
    kept = [path for path in stamps if path.parent.name != "idle-seed1"]
    assert all(path.stat().st_mtime_ns == stamps[path] for path in kept)
    for other in ("optim.lr=0.5", "data.test.split=val"):
        assert main([*words, other]) == 2
        assert "these settings differ" in capsys.readouterr().err


def test_a_recipe_that_fails_has_a_row_that_says_so(files: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = SMALL.format(channels=4, lr=0.1).replace("split: train}", "split: train, root: 7}")
    Path("bad.yaml").write_text(bad.replace("root: 7", "image_size: 7"))
    with pytest.raises(UsageError, match="image_size"):
        leaderboard(["good.yaml", "bad.yaml"], seeds=1)
    assert not Path("runs").exists(), "all recipes are checked before one is trained"
    gone = SMALL.format(channels=4, lr=0.1).replace("Digits, split: train}", "ImageFolder, root: nowhere}")
    Path("bad.yaml").write_text(gone)
    code = main(["leaderboard", "-c", "bad.yaml", "good.yaml", "--seeds", "1", "--metrics", "val/loss,test/accuracy"])
    said = capsys.readouterr()
    assert code == 1
    assert "failed: bad" in said.err
    rows = [line.split() for line in said.out.splitlines()]
    assert rows[0][:2] == ["val/loss", "test/accuracy"]
    assert {row[0] for row in rows[1:]} == {"good", "bad", "majority", "logistic", "nearest"}  # with one's baselines
    assert next(row[1:] for row in rows if row[0] == "bad") == ["-", "-", "-", "-", "failed"]


def test_patterns_of_files_and_of_names(files: Path) -> None:
    assert [path.name for path in recipes(["*.yaml", "good.yaml"])] == ["good.yaml", "idle.yaml"]
    assert [path.stem for path in recipes(["cv/digits_lene?"])] == ["digits_lenet"]
    assert [path.stem for path in recipes(["cv/digits_lenet"])] == ["digits_lenet"]
    (files / "other").mkdir()
    (files / "other" / "good.yaml").write_text("")
    for words, message in (
        ([], "which recipes"),
        (["nothing*"], r"nothing\*: no recipe matches"),
        (["good.yaml", "other/good.yaml"], "have one name"),
    ):
        with pytest.raises(UsageError, match=message):
            recipes(words)
    with pytest.raises(UsageError, match="seeds=0"):
        leaderboard(["good.yaml"], seeds=0)


def test_recipes_of_different_data_are_told_apart(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pdl_cv import Classification

    text = Path("idle.yaml").read_text().replace("Digits, split: test}", "Digits, split: val}")
    Path("idle.yaml").write_text(text)

    def baselines(self: Any, cfg: Any, datasets: Any, split: str) -> dict[str, dict[str, float]]:
        return {"size": {"accuracy": float(len(datasets[split]))}}

    monkeypatch.setattr(Classification, "baselines", baselines)
    board = leaderboard(["good.yaml", "idle.yaml"], seeds=1)
    assert board.notes == ["Not all recipes are measured on the same data: good; idle."]
    assert {row.name for row in board.rows if row.is_baseline} == {"size", "size (idle)"}


def test_one_seed_has_no_deviation() -> None:
    row = Row("a", {"x": [1.0], "y": [1.0, 3.0]})
    assert (row.deviation("x"), row.deviation("z")) == (None, None)
    assert (row.mean("y"), row.deviation("y")) == (2.0, pytest.approx(math.sqrt(2)))
    assert math.isnan(row.mean("z"))


def test_runs_are_compared_as_they_are(files: Path, baselines: None, capsys: pytest.CaptureFixture[str]) -> None:
    made = {"a": (), "b": ("train.seed=1",), "slow": ("optim.lr=1e-4",), "none": ("train.max_steps=1",)}
    for name, settings in made.items():
        assert main(["train", "-c", "good.yaml", "--run", f"runs/{name}", *settings]) == 0
    Path("runs/none/result.json").unlink()
    before = {path: path.stat().st_mtime_ns for path in Path("runs").rglob("*")}
    capsys.readouterr()
    for words in (["runs"], ["runs/a", "runs/b", "runs/slow", "runs/none", "runs/a"]):
        assert main(["leaderboard", *words, "--json"]) == 0
        said = capsys.readouterr()
        rows = {row["name"]: row for row in json.loads(said.out)["rows"]}
        assert rows["runs/a"]["seeds"] == [0, 1]
        assert rows["runs/slow"]["seeds"] == [0]
        assert set(rows) == {"runs/a", "runs/slow", "all", "most frequent"}
        assert said.err.startswith("runs/none: not finished, and left out")
    assert {path: path.stat().st_mtime_ns for path in Path("runs").rglob("*")} == before
    for words in (["runs", "good.yaml"], ["runs", "train.epochs=2"], ["runs/none"], ["runs/a/checkpoints"]):
        assert main(["leaderboard", *words]) == 2
