"""What recipes of click-through rates reach; what is deployed answers as the run does."""

from __future__ import annotations

import gzip
import json
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import pdl
from pdl.cli import main
from pdl.config import load
from pdl.errors import ConfigError, DataError
from pdl_rec.data import Adult, SyntheticClicks

CONFIGS = Path(__file__).parents[3] / "configs" / "rec"
QUICK = ["train.report=false"]


@pytest.mark.slow
def test_adult_reaches_its_target(tmp_path: Path) -> None:
    result = pdl.workflow.train(load(CONFIGS / "adult_widedeep.yaml"), run=tmp_path / "run", progress=False)
    assert result.metrics["test/accuracy"] >= 0.85


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of one epoch with names, sequences of numbers and a group, on the samples that ship."""
    folder = tmp_path_factory.mktemp("run") / "run"
    recipe = load(CONFIGS / "synthetic_lr.yaml", [*QUICK, "train.epochs=1", "+task.group=C9"])
    pdl.workflow.train(recipe, run=folder, progress=False)
    return folder


def test_rows_are_answered_alike_by_run_and_bundle(run: Path) -> None:
    row = "I1=3,C1=3e11b366,C9=3002e2de"
    of_run = pdl.workflow.predict(run, [row, run / "example.csv"])
    session = pdl.runtime.load(run / "model.pdl")
    assert of_run[0] == {"input": row, "click": pytest.approx(session(row)["click"])}
    assert session(row) == session({"I1": 3, "C1": "3e11b366", "C9": "3002e2de"}) != session({"I1": 4})
    assert [each["input"] for each in of_run[1:]] == ["2", "3", "4"]
    assert all(0 < each["click"] < 1 for each in of_run)
    with pytest.raises(DataError, match="has none of the columns I1, I2"):
        session("colour=red")


def test_rows_on_the_command_line(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["predict", str(run), "--row", "I1=3,C1=3e11b366", "--row", '{"C1": "x"}', "--json"]) == 0
    messages = json.loads(capsys.readouterr().out)
    assert [each["input"] for each in messages] == ["I1=3,C1=3e11b366", '{"C1": "x"}']
    out = tmp_path / "answers.csv"
    assert main(["predict", str(run / "model.pdl"), str(run / "example.csv"), "--out", str(out)]) == 0
    assert len(out.read_text().splitlines()) == 4
    assert main(["predict", str(run), "--row", "colour=red"]) == 3


def test_metrics_within_groups_are_told(run: Path) -> None:
    result = pdl.workflow.evaluate(run)
    assert {"test/auc", "test/gauc", "test/logloss", "test/accuracy"} <= result.metrics.keys()


class Interrupt(pdl.train.Hook):
    """Stops in the middle of the first epoch, after its checkpoint."""

    def on_batch(self, trainer: Any) -> None:
        if trainer.state.step == 3:
            raise KeyboardInterrupt


def test_streams_train_and_resume(tmp_path: Path) -> None:
    """The same recipe with its file read block by block: another order, and the same after an interruption."""
    path = SyntheticClicks().source.path
    ratios = "{train: 0.7, val: 0.1, test: 0.2}"
    over = [*QUICK, "train.epochs=2", "train.max_steps=5", "train.checkpoint_every=1", "train.export=false"]
    for split in ("train", "val", "test"):
        node = f"{{_target_: pdl_rec.data.ClickStream, path: {path}, split: {split}, ratios: {ratios}, buffer: 64}}"
        over += [f"data.{split}={node}"]
    whole = pdl.workflow.train(load(CONFIGS / "synthetic_fm.yaml", over), run=tmp_path / "a", progress=False)
    assert np.isfinite(whole.metrics["test/auc"])
    hook = Interrupt()
    with pytest.raises(KeyboardInterrupt):
        pdl.workflow.train(load(CONFIGS / "synthetic_fm.yaml", over), run=tmp_path / "b", hooks=[hook], progress=False)
    again = pdl.workflow.train(
        load(CONFIGS / "synthetic_fm.yaml", over), run=tmp_path / "b", resume=True, progress=False
    )
    assert again.metrics == whole.metrics


def test_labels_and_logits_must_agree(tmp_path: Path) -> None:
    over = ["+task.labels={a: {column: label}, b: {column: label}}"]
    with pytest.raises(ConfigError, match=r"pdl_rec.LR gives 1 logits a row, the task has 2 labels \(a, b\)"):
        pdl.workflow.train(load(CONFIGS / "synthetic_lr.yaml", over), run=tmp_path / "run", progress=False)


def test_the_synthetic_rows_are_those_that_the_tool_makes() -> None:
    made = runpy.run_path(str(CONFIGS.parents[1] / "tools/make_clicks.py"))["content"]()
    assert gzip.decompress(Path(SyntheticClicks().source.path).read_bytes()).decode() == made


def test_adult_keeps_its_official_test() -> None:
    parts = {split: Adult(split=split) for split in ("train", "val", "test")}  # type: ignore[arg-type]
    assert len(parts["test"]) == 16_281
    assert len(parts["train"]) + len(parts["val"]) == 32_561
    assert 3000 < len(parts["val"]) < 3500
    assert parts["test"].record(0)["fnlwgt"] == "226802"  # the first row of adult.test
    assert len(Adult(split="train", val=0.0)) == 32_561
