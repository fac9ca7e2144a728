"""What stands first in report.html: the monitored metric next to the best baseline, warnings; curves, metrics."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from pdl.cli import main
from pdl.train.log import read_log
from pdl.workflow.report import curves, headline, metric_table
from pdl.workflow.result import Result
from pdl.workflow.run_warnings import below_baseline
from tests.framework.config.broken import GOOD


def result(metrics: dict[str, float], baselines: dict[str, dict[str, float]], **more: Any) -> Result:
    return Result(
        recipe="r", task="pdl_demo.Fit", model="pdl_demo.Net", run="runs/r-1", status="finished", seed=0, epochs=1,
        steps=2, seconds=1.0, samples_per_second=None, parameters=3, weights="last (epoch 1)", metrics=metrics,
        baselines=baselines, **more,
    )  # fmt: skip


BASELINES = {"a": {"test/x": 0.5}, "b": {"test/x": 0.75}, "c": {"test/x": float("nan")}, "d": {"test/y": 9.0}}


@pytest.mark.parametrize(
    ("reached", "mode", "says"),
    [
        (0.875, "max", 'best baseline 0.75, b: the model is <span class="good">better by 0.125</span>'),
        (0.625, "max", 'best baseline 0.75, b: the model is <span class="bad">worse by 0.125</span>'),
        (0.75, "max", 'best baseline 0.75, b: the model is <span class="bad">equal</span>'),
        (0.25, "min", 'best baseline 0.5, a: the model is <span class="good">better by 0.25</span>'),
        (0.75, "min", 'best baseline 0.5, a: the model is <span class="bad">worse by 0.25</span>'),
    ],
)
def test_the_best_baseline_is_named(reached: float, mode: str, says: str) -> None:
    found = result({"test/loss": 1.0, "test/x": reached, "val/x": 0.1}, BASELINES)
    found.warnings = ["<all> of one class", *filter(None, [below_baseline(found, "val/x", mode)])]
    page = headline(found, "test", ("val/x", mode))
    assert f"<b>{reached:.4g}</b><div>test/x</div>" in page
    assert says in page
    assert page.count("baseline") == 1, "that it is below one is said once"
    assert "&lt;all&gt; of one class" in page


@pytest.mark.parametrize(
    ("metrics", "split", "shown"),
    [
        ({"val/x": 0.25}, "val", "0.25</b><div>val/x"),
        ({"energy": -1.5, "val/x": 0.25}, "test", "0.25</b><div>val/x"),
        ({"energy": -1.5, "test/loss": 2.0}, "test", "-1.5</b><div>energy"),
        ({"test/x": None, "val/x": 0.25}, "test", "0.25</b><div>val/x"),
        ({}, "test", ""),
    ],
)
def test_which_metric_is_large(metrics: dict[str, float], split: str, shown: str) -> None:
    page = headline(result(metrics, {}), split, ("val/x", "max"))
    assert shown in page
    assert bool(page) == bool(shown)
    assert "baseline" not in page


def test_metrics_stand_in_columns_by_split() -> None:
    page = metric_table(
        result({"energy": -1.13727016, "test/x": 0.5, "test/y": 2.0, "val/x": 0.25, "train/z": 3.0}, {})
    )
    rows = [re.findall(r"<t[dh][^>]*>(.*?)</t[dh]>", row) for row in re.findall(r"<tr>(.*?)</tr>", page)]
    assert rows == [
        ["energy", "-1.13727016"],
        ["", "test", "val", "train"],
        ["x", "0.5", "0.25", "-"],
        ["y", "2", "-", "-"],
        ["z", "-", "-", "3"],
    ]


def test_curves_begin_with_loss_and_the_monitored_metric() -> None:
    names = ["auc", "recall@20", "recall@5", "x", "loss", "f1", "g", "h"]
    lines = [{"kind": "epoch", "epoch": k, "step": 10 * k, "lr": 0.1, **{f"val/{n}": k for n in names}} for k in (1, 2)]
    page = curves([{"kind": "step", "epoch": 1, "step": 1, "loss": 1.0, "lr": 0.01}, *lines], first="x")
    captions = re.findall(r"<figcaption>(.*?)</figcaption>", page)
    assert captions == ["loss", "x", "learning rate", "auc", "f1", "g", "h", "recall"]
    assert page.index("<figcaption>g<") < page.index("<details>") < page.index("<figcaption>h<")
    assert "step 1\N{BLACK SQUARE}" in re.sub(r"<.*?>", "", page)


def test_a_report_of_a_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, demo: None) -> None:
    monkeypatch.chdir(tmp_path)
    Path("recipe.yaml").write_text(GOOD)
    assert main(["train", "-c", "recipe.yaml", "--run", "run"]) == 0
    steps = [line["step"] for line in read_log(Path("run/metrics.jsonl")) if line["kind"] == "step"]
    assert steps[0] == 1, "the rate of the first step"
    page, found = Path("run/report.html").read_text(), Result.load(Path("run/result.json"))
    lead = page[: page.index("<h2>")]
    assert f"<b>{found.metrics['val/loss']:.4g}</b><div>val/loss</div>" in lead
    assert f"pdl_demo.Net, {found.parameters:,} parameters" in lead
    assert re.search(r"<dt>data</dt><dd>[^<]*train 64, val 16 samples</dd>", lead)
    assert f"<dt>weights</dt><dd>{found.weights}" in lead
    assert f"<code>{found.next}</code>" in lead
    titles = re.findall(r"<h2>(.*?)</h2>", page)
    assert titles == ["Curves", "Result", "Made with", "Recipe"]
