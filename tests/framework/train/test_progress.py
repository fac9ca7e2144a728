"""What people read while a model is trained: the opening, whole names and numbers on every terminal, why it ended."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest

import pdl
from pdl.cli import main
from pdl.train import EarlyStop, TrainSettings
from pdl.train.log import Progress, broken, fitted
from tests.framework.config.broken import GOOD
from tests.framework.train.toy import regression

Capture = pytest.CaptureFixture[str]


class Terminal(io.StringIO):
    """A stream that is one."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("columns", [60, 80, 200])
def test_a_terminal_breaks_no_name_and_no_number(columns: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    screen, log = Terminal(), tmp_path / "train.log"
    with pdl.random.fork_seed(0):
        trainer = regression(TrainSettings(epochs=2), hooks=[Progress(screen, path=log)])
        trainer.notes = [f"a line of words {'and words ' * 30}".strip()]
        trainer.fit()
    drawn = [line for line in re.split(r"[\r\n]+", screen.getvalue().replace("\x1b[K", "")) if line]
    assert max(map(len, drawn)) <= columns
    written = log.read_text()
    assert written.splitlines()[0] == trainer.notes[0]
    kept = [line for line in drawn if not line.startswith("epoch") or "train/loss" in line]
    all_words = iter(written.split())
    assert all(word in all_words for word in " ".join(kept).split())  # in this order, other metrics left out
    assert written.count("val/rmse") == 2
    assert columns < 200 or " ".join(kept).split() == written.split()
    assert any("[" in line for line in drawn) or columns < 80


def test_epochs_stand_in_columns_and_fit_a_line(tmp_path: Path) -> None:
    trainer = regression(TrainSettings(epochs=12))
    screen = io.StringIO()
    progress = Progress(screen, path=tmp_path / "train.log")
    others = {f"val/recall@{k}": 0.5 for k in range(20)}
    for loss in (123.4, 1.5):
        trainer.epoch_log = {"train/loss": loss, "lr": 0.1, **others, "val/loss": loss}
        trainer.state.epoch, trainer.improved = trainer.state.epoch + 1, loss < 2
        progress.on_epoch(trainer)
    first, second = screen.getvalue().splitlines()
    assert first.startswith("epoch  1/12  train/loss 123.4000  val/loss 123.4000     val/recall@0 0.5000")
    assert second.startswith("epoch  2/12  train/loss   1.5000  val/loss   1.5000  *  val/recall@0 0.5000")
    assert max(len(first), len(second)) <= 120
    assert all(name in line for line in (tmp_path / "train.log").read_text().splitlines() for name in others)


def test_pieces_are_whole() -> None:
    assert fitted(["abc", "de", "fgh"], 8) == "abc  de"
    assert fitted(["abcdefghi"], 8) == ""
    assert broken(["abc", "de", "fgh", "abcdefghi"], 8) == "abc  de\n    fgh\n    abcdefghi"


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, demo: None) -> str:
    monkeypatch.chdir(tmp_path)
    Path("recipe.yaml").write_text(GOOD)
    return "recipe.yaml"


def test_the_opening_and_the_log(recipe: str, capsys: Capture) -> None:
    words = ["train", "-c", recipe, "--run", "run", "train.log_every=1"]
    assert main([*words, "-v"]) == 0
    said = capsys.readouterr()
    lines = said.err.splitlines()
    assert lines[:2] == ["run      run", "data     train 64, val 16"]
    assert lines[2].startswith("model    pdl_demo.Net, ")
    assert lines[3] == "train    2 epochs, 8 steps; * marks the best val/loss so far"
    assert re.fullmatch(r"machine  \S+ \S+, \d+ threads?, pdl \S+", lines[4])
    assert sum(line.startswith("  step ") for line in lines) == 8
    log = Path("run/train.log").read_text().splitlines()
    assert log[: len(lines)] == lines
    assert [line.split()[0] for line in log[len(lines) + 1 :]] == [line.split()[0] for line in said.out.splitlines()]
    assert "measuring on val; weights: best (epoch 2), by val/loss" in lines

    assert main(["train", "--resume", "run", "-q"]) == 0
    assert capsys.readouterr().err == ""
    ended = "this run has ended after 2 epochs, 8 steps: nothing is left to train; it is tested and reported again"
    assert ended in Path("run/train.log").read_text().splitlines()
    assert main([*words, "-q", "-v"]) == 2


def test_why_it_stopped(recipe: str, capsys: Capture) -> None:
    assert main(["train", "-c", recipe, "--run", "run", "optim.lr=0", "train.early_stop=1"]) == 0
    said = capsys.readouterr()
    why = r"no better val/loss in an evaluation; the best is 0\.\d+"
    assert re.search(rf"^stopped after epoch 2: {why}$", said.err, re.MULTILINE)
    assert re.search(rf"^stopped +{why}$", said.out, re.MULTILINE)
    assert EarlyStop(3).state_dict() == {"waited": 0}
