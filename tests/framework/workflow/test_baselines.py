"""Baselines stand beside the model: in the result, at the end of a training, in eval, the report and the card."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

import pdl.train
from pdl import watch
from pdl.cli import main
from pdl.errors import DataError
from pdl.workflow.result import FIELDS, Result
from tests.framework.config.broken import GOOD


@pytest.fixture
def calls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, demo: None) -> list[tuple[Any, str]]:
    """What the task's baselines were measured on; in an empty folder with a recipe."""
    from pdl_demo import Fit

    found: list[tuple[Any, str]] = []

    def baselines(self: Any, cfg: Any, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
        found.append(({name: len(data) for name, data in datasets.items()}, split))
        return {"mean": {"loss": 0.75}, "nothing": {"loss": 2.5, "other": float("nan")}}

    monkeypatch.setattr(Fit, "baselines", baselines)
    monkeypatch.chdir(tmp_path)
    Path("recipe.yaml").write_text(GOOD)
    return found


def test_from_training_to_report(calls: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "-c", "recipe.yaml", "--run", "run"]) == 0
    assert calls == [({"train": 64, "val": 16}, "val")], "once, on the data that is there"
    messages = capsys.readouterr()
    assert re.search(r"^val/loss 0\.\d+; measuring the baselines on val$", messages.err, re.MULTILINE), "before them"
    table = messages.out.split("\n\n")[1].splitlines()
    assert table[0].split() == ["Net", "mean", "nothing"]
    data = json.loads(Path("run/result.json").read_text())
    assert data.keys() == FIELDS.keys()
    assert data["baselines"]["nothing"] == {"val/loss": 2.5, "val/other": None}
    result = Result.load(Path("run/result.json"))
    ours = f"{result.metrics['val/loss']:.4f}"
    rows = [["val/loss", ours, "0.7500", "2.5000"], ["val/other", "-", "-", "-"]]
    assert [line.split() for line in table[1:]] == rows
    page = Path("run/report.html").read_text()
    assert page.index("<h2>Curves</h2>") < page.index("<h2>Result</h2>") < page.index("<h2>Baselines</h2>")
    assert '<th class="n">mean</th>' in page
    assert main(["eval", "run", "--split", "val"]) == 0
    assert len(calls) == 1, "what the run's own test measured is taken"
    assert "nothing" in capsys.readouterr().out
    assert main(["eval", "run", "--split", "val", "data.val.n=8"]) == 0
    assert calls[1:] == [({"train": 64, "val": 8}, "val")]
    capsys.readouterr()
    assert main(["eval", "run", "--split", "val", "data.val.n=8", "--no-baselines", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["baselines"] == {}
    assert main(["train", "-c", "recipe.yaml", "--fast-dev-run"]) == 0
    assert len(calls) == 2, "two batches are no protocol"


def test_a_line_says_why_there_are_none(calls: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from pdl_demo import Points

    pdl.workflow.train(pdl.config.load("recipe.yaml"), run="run", progress=False)
    messages: list[str] = []
    monkeypatch.setattr(watch, "note", messages.append)
    own = Points.__init__

    def gone(self: Any, split: str = "train", **arguments: Any) -> None:
        if split == "train":
            raise DataError("points.csv: no such file")
        own(self, split=split, **arguments)

    monkeypatch.setattr(Points, "__init__", gone)
    found = pdl.workflow.evaluate("run", split="val", overrides=["data.val.n=8"], baselines=True)
    assert found.baselines == {}
    assert "val/loss" in found.metrics
    assert len(messages) == 1
    assert messages[0].startswith("no baselines beside it: the training data is not here (")
    assert messages[0].endswith("points.csv: no such file)")
