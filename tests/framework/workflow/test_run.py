"""A run folder belongs to one run: what holds a run is refused, a new folder is made at once, one process uses it."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import pdl.workflow
from pdl import config
from pdl.cli import main
from pdl.errors import DataError, UsageError
from pdl.train import Hook
from pdl.workflow import Run
from tests.framework.config.broken import GOOD


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, demo: None) -> Any:
    monkeypatch.chdir(tmp_path)
    Path("recipe.yaml").write_text(GOOD)
    return config.load("recipe.yaml", ["train.epochs=1", "train.report=false"])


class Stop(Hook):
    """What happens at the first step."""

    def __init__(self, error: BaseException | None = None) -> None:
        self.error = error
        self.reached, self.goes_on = threading.Event(), threading.Event()

    def on_step(self, trainer: Any) -> None:
        if self.error is not None:
            raise self.error
        self.reached.set()
        self.goes_on.wait()


def begun(folder: Path, recipe: Any) -> None:
    """A run that was killed before its first checkpoint."""
    pdl.workflow.train(recipe, run=folder, progress=False)
    shutil.rmtree(folder / "checkpoints")
    (folder / "result.json").unlink()


def test_a_run_without_a_checkpoint_is_not_overwritten(recipe: Any) -> None:
    begun(Path("run"), recipe)
    before = Path("run/config.yaml").read_bytes()
    other = config.load("recipe.yaml", ["train.epochs=1", "optim.lr=0.5", "train.report=false"])
    with pytest.raises(UsageError, match=r"run: holds a run already; go on with it \(pdl train --resume run\)"):
        pdl.workflow.train(other, run="run", progress=False)
    assert Path("run/config.yaml").read_bytes() == before
    assert not Path("run/checkpoints").exists()
    assert pdl.workflow.train(recipe, run="run", resume=True, progress=False).status == "finished"


def test_a_folder_that_no_checkpoint_came_to_takes_another_recipe(recipe: Any) -> None:
    Path("run").mkdir()
    with pytest.raises(KeyboardInterrupt, match="nothing to go on from"):
        pdl.workflow.train(recipe, run="run", hooks=[Stop(KeyboardInterrupt())], progress=False)
    other = config.load("recipe.yaml", ["train.epochs=1", "optim.lr=0.5", "train.report=false"])
    pdl.workflow.train(other, run="run", progress=False)
    assert Run.open("run").config()["optim"]["lr"] == 0.5


@pytest.mark.parametrize("error", [DataError("row 3"), KeyboardInterrupt(), ZeroDivisionError()], ids=repr)
def test_a_folder_without_a_checkpoint_goes_with_the_error(recipe: Any, error: BaseException) -> None:
    with pytest.raises(type(error)):
        pdl.workflow.train(recipe, hooks=[Stop(error)], progress=False)
    assert not list(Path("runs").iterdir())
    broken = config.load("recipe.yaml", ["data.train.root=nowhere"])
    with pytest.raises(DataError, match="nowhere"):
        pdl.workflow.train(broken, progress=False)
    assert not list(Path("runs").iterdir())


def test_what_else_lies_in_a_given_folder_stays(recipe: Any) -> None:
    Path("run").mkdir()
    Path("run/notes.txt").write_text("mine")
    with pytest.raises(KeyboardInterrupt):
        pdl.workflow.train(recipe, run="run", hooks=[Stop(KeyboardInterrupt())], progress=False)
    assert Path("run/notes.txt").read_text() == "mine"
    assert pdl.workflow.train(recipe, run="run", progress=False).status == "finished"
    assert Path("run/notes.txt").read_text() == "mine"


def test_folders_are_taken_before_the_data_is_read(recipe: Any) -> None:
    with Run.new(None, "x") as first, Run.new(None, "x") as second:
        assert [str(each.path) for each in (first, second)] == ["runs/x-1", "runs/x-2"]
        assert first.path.is_dir()
        assert second.path.is_dir()


@pytest.mark.parametrize("resume", [False, True])
def test_one_process_trains_in_a_folder(recipe: Any, resume: bool, demo_env: dict[str, str]) -> None:
    """A folder that somebody made, and one that a run was begun in: the other process is told, and changes nothing."""
    if resume:
        begun(Path("run"), recipe)
    else:
        Path("run").mkdir()
    stop, results = Stop(), []
    thread = threading.Thread(
        target=lambda: results.append(
            pdl.workflow.train(recipe, run="run", resume=resume, hooks=[stop], progress=False)
        )
    )
    thread.start()
    stop.reached.wait()
    try:
        words = ["--resume", "run"] if resume else ["-c", "recipe.yaml", "--run", "run"]
        command = [sys.executable, "-m", "pdl", "train", *words, "train.epochs=1", "train.report=false"]
        done = subprocess.run(command, capture_output=True, text=True, check=False, env=demo_env)
    finally:
        stop.goes_on.set()
        thread.join()
    assert done.returncode == 2, done.stderr
    assert "run: something else is training into this folder" in done.stderr
    assert [each.status for each in results] == ["finished"]
    assert json.loads(Path("run/result.json").read_text())["status"] == "finished"
    assert not Path("run/.lock").exists()


@pytest.mark.parametrize("path", ["file", "file/run"])
def test_a_file_in_the_way(recipe: Any, path: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("file").write_text("")
    assert main(["train", "-c", "recipe.yaml", "--run", path]) == 3
    assert re.match(rf"{path}: .*; a file stands where a folder should be\n", capsys.readouterr().err)
