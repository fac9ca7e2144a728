"""Answers of a file that is interrupted: what was found is kept, and the same command goes on behind it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pdl.cli import main
from pdl.errors import DataError, UsageError
from pdl.export.bundle import write
from pdl.runtime.journal import Journal
from pdl.runtime.steps import registry

from .decoders import Attention, Digits, deployment, drawn

LINES = [f"{i % 8 + 3} {i % 5 + 3} {i % 3 + 3}" for i in range(70)]

#: `pdl` that dies in the middle of its answers
DYING = """
import os, signal, sys
from pdl.runtime.pipeline import Pipeline
from pdl.runtime.steps import registry
from tests.framework.runtime.decoders import Digits
registry.OWN["digits"] = Digits
left, finish = int(sys.argv[1]), Pipeline.finish
def dying(self, *arguments):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return finish(self, *arguments)
Pipeline.finish = dying
from pdl.cli import main, overview, style
sys.exit(main(sys.argv[2:]))
"""


def pdl(after: int, *arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    root = Path(__file__).parents[3]
    path = os.pathsep.join([str(root), *sys.path])
    command = [sys.executable, "-c", DYING, str(after), *arguments]
    env = {**os.environ, "PYTHONPATH": path}
    return subprocess.run(command, capture_output=True, text=True, cwd=folder, env=env, check=False)


def test_kill_9_loses_no_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(registry.OWN, "digits", Digits)
    write(tmp_path / "model.pdl", deployment(drawn(Attention()), max_length=8))
    (tmp_path / "in.txt").write_text("\n".join(LINES) + "\n")
    command = ["predict", "model.pdl", "in.txt", "--stop", ".", "--out"]  # a text, not the folder of out.csv.partial
    assert pdl(999, *command, "whole.csv", folder=tmp_path).returncode == 0
    assert not (tmp_path / "whole.csv.partial").exists()
    killed = pdl(40, *command, "out.csv", folder=tmp_path)
    assert killed.returncode == -9, killed.stderr
    assert not (tmp_path / "out.csv").exists()
    lines = (tmp_path / "out.csv.partial").read_text().splitlines()
    assert len(lines) == 1 + 32, "a line for the command, and those of the first group of inputs"
    with (tmp_path / "out.csv.partial").open("a") as file:
        file.write('{"name": "cut of')
    other = pdl(999, *command, "out.csv", "--resume", "--beam", "2", folder=tmp_path)
    assert other.returncode == 2
    assert "answers of another command" in other.stderr
    (tmp_path / "in.txt").write_text("\n".join([*LINES[:-1], "9 9 9"]) + "\n")  # as many bytes
    other = pdl(999, *command, "out.csv", "--resume", folder=tmp_path)
    assert (other.returncode, "answers of another command" in other.stderr) == (2, True)
    (tmp_path / "in.txt").write_text("\n".join(LINES) + "\n")
    resumed = pdl(38, *command, "out.csv", "--resume", folder=tmp_path)  # 70 - 32: no more than are missing
    assert resumed.returncode == 0, resumed.stderr
    assert "32 inputs are answered" in resumed.stderr
    assert (tmp_path / "out.csv").read_text() == (tmp_path / "whole.csv").read_text()
    assert not (tmp_path / "out.csv.partial").exists()


def test_a_journal_keeps_what_is_whole(tmp_path: Path) -> None:
    target = tmp_path / "out.csv"
    journal = Journal(target, {"model": "m"})
    journal.add("a", [{"text": "x\ny", "score": -1.5}])
    journal.add("b", [])
    again = Journal(target, {"model": "m"}, resume=True)
    assert again.done == 2
    again.add("c", [{"text": "z"}])
    again.add("d", [], "no text")
    assert (again.done, again.without) == (4, 1)
    again = Journal(target, {"model": "m"}, resume=True)
    assert (again.done, again.without) == (4, 1)
    assert list(again.entries()) == [
        ("a", [{"text": "x\ny", "score": -1.5}]),
        ("b", []),
        ("c", [{"text": "z"}]),
        ("d", []),
    ]
    with pytest.raises(UsageError, match="answers of another command"):
        Journal(target, {"model": "n"}, resume=True)
    again.path.write_text("no json\n")
    with pytest.raises(DataError, match="its first line is damaged"):
        Journal(target, {"model": "m"}, resume=True)
    assert Journal(target, {"model": "m"}).done == 0


def test_answers_replace_nothing_that_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(registry.OWN, "digits", Digits)
    monkeypatch.chdir(tmp_path)
    write("model.pdl", deployment(drawn(Attention()), max_length=8))
    Path("in.csv").write_text("text\n" + "\n".join(LINES) + "\n")
    before = Path("in.csv").read_text()
    assert main(["predict", "model.pdl", "in.csv", "--out", "./in.csv"]) == 2
    assert "would replace what they are made of" in capsys.readouterr().err
    assert Path("in.csv").read_text() == before
    assert main(["predict", "model.pdl", "-", "--out", "out.csv", "--resume"]) == 2
    assert "give them as a FILE" in capsys.readouterr().err
    Path("empty.txt").write_text("")
    Path("out.csv").write_text("kept")
    for given in (["empty.txt"], ["empty.txt", "--json"], ["empty.txt", "--out", "out.csv"]):
        assert main(["predict", "model.pdl", *given]) == 3
        assert "the inputs are empty" in capsys.readouterr().err
    assert Path("out.csv").read_text() == "kept"
    assert main(["predict", "model.pdl", "3 4 5 " * 200]) in (0, 3), "a text longer than names of files may be"
    assert "name too long" not in capsys.readouterr().err
