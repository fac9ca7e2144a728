"""Several runs averaged into one: it is a run as any other, and answers the mean of theirs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import pdl
from pdl import nn
from pdl.cli import main
from pdl.errors import UsageError
from pdl.workflow import Run, ensemble, evaluate
from tests.framework.workflow.test_leaderboard import SMALL

Capture = pytest.CaptureFixture[str]


class Pair(NamedTuple):
    one: pdl.Tensor
    two: pdl.Tensor


class Answers(nn.Module):
    def __init__(self, make: Any) -> None:
        self.make = make

    def forward(self, x: pdl.Tensor) -> Any:
        return self.make(x)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of nets of different widths, a sweep, and their folder."""
    place = tmp_path_factory.mktemp("ensemble")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        Path("small.yaml").write_text(SMALL.format(channels=4, lr=0.01))
        for name, channels, seed in (("a", 4, 0), ("b", 6, 1)):
            words = [
                f"model.channels=[{channels},{channels}]",
                f"train.seed={seed}",
                "train.epochs=2",
                "train.export=true",
            ]
            assert main(["train", "-q", "-c", "small.yaml", "--run", name, *words]) == 0
    return place


def test_the_mean_of_answers() -> None:
    x = pdl.tensor(np.arange(6, dtype=np.float32).reshape(2, 3))
    double, plus = Answers(lambda x: 2 * x), Answers(lambda x: x + 1)
    np.testing.assert_allclose(nn.Ensemble([double, plus])(x).data, 1.5 * x.data + 0.5)
    pairs = Answers(lambda x: Pair(x, 3 * x)), Answers(lambda x: Pair(3 * x, x))
    made = nn.Ensemble(pairs)(x)
    assert isinstance(made, Pair)
    np.testing.assert_allclose(made.one.data, made.two.data)
    for make, says in (
        (lambda x: pdl.argmax(x, axis=-1), "a tensor of int64, which has no mean"),
        (lambda x: [x], "a list, which has no mean"),
    ):
        with pytest.raises(UsageError, match=says):
            nn.Ensemble([Answers(make)] * 2)(x)
    with pytest.raises(UsageError, match=r"shapes \(2, 3\), \(3,\)"):
        nn.Ensemble([Answers(lambda x: x), Answers(lambda x: x[0])])(x)


def test_runs_become_one(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.chdir(place)
    assert main(["ensemble", "a", "b", "--run", "both", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["status"] == "ensemble of 2"
    opened = Run.open("both").opened()
    x = pdl.tensor(np.random.default_rng(0).random((5, 8, 8, 1), np.float32))
    logits = [Run.open(run).opened().model.eval()(x).data for run in ("a", "b")]
    np.testing.assert_allclose(opened.model.eval()(x).data, (logits[0] + logits[1]) / 2, atol=1e-6)
    for what in ("both", "both/model.pdl"):
        measured = evaluate(what, split="val").metrics
        assert measured["val/loss"] == pytest.approx(said["metrics"]["val/loss"], abs=1e-5)
    assert main(["predict", "both", "both/example.png"]) == 0
    assert "members:" in Path("both/config.yaml").read_text()
    assert main(["ensemble", "a", "b", "--run", "both"]) == 2
    assert "holds a run already" in capsys.readouterr().err


def test_runs_that_have_no_mean(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place)
    with pytest.raises(UsageError, match="name two at least"):
        ensemble(["a", "a"])
    words = ["data.transforms.eval=[{_target_: pdl.data.transforms.Normalize, mean: [0.1], std: [0.2]}]"]
    assert main(["train", "-q", "-c", "small.yaml", "--run", "c", "train.epochs=1", *words]) == 0
    with pytest.raises(UsageError, match=r"c: it differs from a in what is asked, or of what data:\n  - data\.tr"):
        ensemble(["a", "c"], run="ac")
    assert not Path("ac").exists()


def test_the_best_of_a_sweep(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.chdir(place)
    words = ["sweep", "-q", "-c", "small.yaml", "optim.lr=0.0,0.02,0.01", "train.epochs=1", "--json"]
    found = {}
    for count in (2, 3, 3):
        assert main([*words, "--ensemble", str(count)]) == 0
        row, *others = json.loads(capsys.readouterr().out)["rows"]
        assert row["name"] == f"ensemble of the {count} best"
        found[count] = json.loads(Path("runs/small-sweep/ensemble/run.json").read_text())["members"]
        best = [each["runs"][0] for each in others if not each["baseline"]]
        assert found[count] == best[:count]
        if count == 3:
            Path("runs/small-sweep/ensemble/result.json").unlink()  # as of a call that was killed: it is made again
    for wrong, says in ((["--ensemble", "1"], "at least 2"), (["--ensemble", "2", "--folds", "2"], "different data")):
        assert main([*words, *wrong]) == 2
        assert says in capsys.readouterr().err
