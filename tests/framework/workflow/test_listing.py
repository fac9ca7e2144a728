"""`pdl runs` and `pdl compare`: runs as they are, chosen, sorted and side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import pdl.workflow
from pdl import config
from pdl.cli import main
from pdl.errors import UsageError
from pdl.train import Hook
from pdl.workflow.listing import runs
from tests.framework.config.broken import GOOD

Capture = pytest.CaptureFixture[str]


class Look(Hook):
    """Lists the runs while one is under way, and then ends it."""

    statuses: tuple[str, ...] = ()

    def on_epoch(self, trainer: Any) -> None:
        self.statuses = tuple(entry.facts["status"] for entry in runs("made/half"))
        trainer.interruption = KeyboardInterrupt()

    def on_step(self, trainer: Any) -> None:
        if trainer.state.epoch == 1:
            trainer.interruption = KeyboardInterrupt()


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, demo: None) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("recipe.yaml").write_text(GOOD)
    for name, settings in {
        "a": ["optim.lr=0.1"],
        "deep/b": ["optim.lr=0.2", "train.seed=1"],
        "deep/c": ["train.epochs=1"],
    }.items():
        recipe = config.load("recipe.yaml", ["train.report=false", *settings])
        pdl.workflow.train(recipe, run=f"made/{name}", progress=False)
    look = Look()
    with pytest.raises(KeyboardInterrupt):
        pdl.workflow.train(config.load("recipe.yaml"), run="made/half", hooks=[look], progress=False)
    assert look.statuses == ("running",)
    Path("made/other").mkdir()
    Path("made/other/config.yaml").write_text("of: somebody else\n")
    return tmp_path


def listed(*arguments: str) -> list[str]:
    words = [word.partition("=")[::2] for word in arguments]
    where = [text for key, text in words if key == "where"]
    return [Path(e.facts["run"]).name for e in runs("made", where=where, sort=dict(words).get("sort", ""))]


def test_runs_are_chosen_and_sorted(place: Path, capsys: Capture) -> None:
    assert listed() == ["half", "c", "b", "a"], "the last one begun comes first"
    losses = {Path(e.facts["run"]).name: e.metrics["val/loss"] for e in runs("made")}
    assert [losses[name] for name in listed("sort=val/loss")] == sorted(losses.values())
    assert [losses[name] for name in listed("sort=-val/loss")] == sorted(losses.values(), reverse=True)
    assert listed("sort=run") == ["a", "b", "c", "half"]
    assert listed("where=status!=finished") == ["half"]
    assert listed("where=status=unfinished", "where=epochs>=1") == ["half"]
    assert set(listed("where=model=*NET", "where=epochs<2")) == {"c", "half"}
    assert listed("where=optim.lr>0.1") == ["b"]
    assert listed("where=train.seed=1.0") == ["b"], "numbers are compared as numbers, and the rest lacks the key"
    assert listed("where=val/loss > 1e9") == []
    for words, says in (
        (["where=optim.lrr>1"], "did you mean 'optim.lr'?"),
        (["sort=test/accuracy"], "none of the runs has 'test/accuracy'"),
        (["where=finished"], "'finished' is no condition; write NAME=VALUE"),
        (["where=status>finished"], "> needs a number behind it"),
    ):
        with pytest.raises(UsageError, match=says.replace("?", r"\?")):
            listed(*words)
    with pytest.raises(UsageError, match="nowhere: no such folder"):
        runs("nowhere")

    assert main(["runs", "made", "--where", "optim.lr=0.1", "--json"]) == 0
    (one,) = json.loads(capsys.readouterr().out)
    assert one["settings"] == {"optim.lr": 0.1}
    assert {"run": "made/a", "status": "finished", "model": "pdl_demo.Net", "epochs": 2}.items() <= one.items()
    assert set(one["metrics"]) == {"val/loss", "train/loss"}
    assert main(["runs", "made", "--sort", "optim.lr", "--metrics", "train/loss"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head.split()[:4] == ["run", "train/loss", "optim.lr", "status"]
    assert [line.split()[0] for line in lines[-2:]] == ["made/a", "made/deep/b"]
    assert main(["runs", "made", "--where", "seed=9"]) == 0
    assert capsys.readouterr().err == "no run is like that\n"


def test_runs_are_compared(place: Path, capsys: Capture) -> None:
    assert main(["compare", "made/a", "made/deep/b", "made/half", "--json", "--out", "page.html"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["runs"] == ["made/a", "made/deep/b", "made/half"]
    assert found["settings"]["optim.lr"][:2] == [0.1, 0.2]
    assert found["settings"]["train.seed"] == [0, 1, 0]
    assert "model.width" not in found["settings"]
    assert found["reached"]["status"] == ["finished", "finished", "unfinished"]
    assert all(found["reached"]["val/loss"])
    page = Path("page.html").read_text()
    assert page.count("<polyline") == 6
    assert page.count("<figcaption>val/loss") == 1
    assert main(["compare", "made/a", "made/deep/b"]) == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["optim.lr", "0.1000", "0.2000"] in lines
    assert main(["compare", "made/a", "made/a"]) == 2
    assert "name two at least" in capsys.readouterr().err
