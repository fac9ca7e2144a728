"""Figures of a whole run, which have no split in front, and sections on its log: in the result, in eval, the report."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from pdl.cli import main
from pdl.report import Section
from pdl.train import Evaluation, Reporter
from tests.framework.config.broken import GOOD


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, demo: None) -> None:
    """A recipe in an empty folder, whose task names a figure and draws its log."""
    from pdl_demo import Fit

    def figures(self: Any, evaluation: Evaluation) -> dict[str, float]:
        return {"halved": evaluation.metrics[f"{evaluation.split}/loss"] / 2}

    class Epochs(Reporter):
        def log_sections(self, lines: Sequence[Mapping[str, Any]]) -> list[Section]:
            return [Section("Log", f"{sum(line['kind'] == 'epoch' for line in lines)} epochs")]

    monkeypatch.setattr(Fit, "summary_metrics", figures)
    monkeypatch.setattr(Fit, "reporter", lambda self: Epochs(self))
    monkeypatch.chdir(tmp_path)
    Path("recipe.yaml").write_text(GOOD)


def test_from_training_to_report(recipe: None, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "-c", "recipe.yaml", "--run", "run"]) == 0
    found = json.loads(Path("run/result.json").read_text())
    metrics = found["metrics"]
    assert next(iter(metrics)) == "halved"
    assert metrics["halved"] == metrics["val/loss"] / 2
    shown = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["halved", f"{metrics['halved']:.9g}"] in shown
    page = Path("run/report.html").read_text()
    assert f"<h2>Log</h2>{found['epochs']} epochs" in page
    assert page.index("<h2>Curves</h2>") < page.index("<h2>Log</h2>")
    assert main(["eval", "run", "--split", "val", "data.val.n=8", "--json"]) == 0
    other = json.loads(capsys.readouterr().out)["metrics"]
    assert other == {"halved": other["val/loss"] / 2, "val/loss": other["val/loss"]}
    assert other["halved"] != metrics["halved"]
