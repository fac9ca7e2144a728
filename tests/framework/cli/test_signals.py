"""Signals end a training after its step, with a checkpoint; the run that is gone on with ends with the same bits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pdl import checkpoint
from pdl.cli import main
from pdl.cli.signals import Interrupted, Stop, stoppable
from tests.framework.config.broken import GOOD

EXIT = {"SIGINT": 130, "SIGTERM": 143, "SIGHUP": 129}
#: a training that sends itself signals: the first before step N (counted by calls of the task's step), in the real
#: command, with its real handlers
SCRIPT = """
import os, signal, sys
import pdl_demo
from pdl.cli import main
name, at, *words = sys.argv[1:]
step, calls = pdl_demo.Fit.step, []
def counted(*arguments):
    calls.append(1)
    if len(calls) == int(at):
        os.kill(os.getpid(), getattr(signal, name))
    return step(*arguments)
pdl_demo.Fit.step = counted
before = [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)]
code = main(words)
assert [signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)] == before
sys.exit(code)
"""
SETTINGS = ["train.compile=false", "train.epochs=3", "train.log_every=1", "data.batch_size=8", "train.ema=0.9"]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, demo: None) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("recipe.yaml").write_text(GOOD)
    return tmp_path


def child(env: dict[str, str], name: str, at: int, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", SCRIPT, name, str(at), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=env)


def weights(run: str) -> dict[str, bytes]:
    tree = checkpoint.load(Path(run) / "checkpoints/last.safetensors")
    assert tree["state"]["step"] == 24
    whole = {**tree["model"], **{f"ema.{name}": x for name, x in tree["ema"]["average"].items()}}
    return {name: array.tobytes() for name, array in whole.items()}


@pytest.mark.parametrize(("name", "at"), [("SIGINT", 1), ("SIGTERM", 3), ("SIGHUP", 8), ("SIGTERM", 9)])
def test_a_signal_saves_and_the_rest_is_the_same(place: Path, demo_env: dict[str, str], name: str, at: int) -> None:
    """In the first step, in the first epoch, in an evaluation, and in a later epoch: 8 steps an epoch, and 2
    evaluations."""
    assert main(["train", "-c", "recipe.yaml", "--run", "whole", *SETTINGS]) == 0
    done = child(demo_env, name, at, "train", "-c", "recipe.yaml", "--run", "run", *SETTINGS)
    assert done.returncode == EXIT[name], done.stderr
    assert done.stderr.splitlines()[-1].endswith("; go on with: pdl train --resume run")
    assert Path("run/train.log").read_text().splitlines()[-1] == done.stderr.splitlines()[-1]
    kept = checkpoint.load(Path("run/checkpoints/last.safetensors"))["state"]["step"]
    assert kept == min(at, 8), "the step under way was the last; in an evaluation, the one before it"
    assert not Path("run/.lock").exists()
    assert main(["train", "--resume", "run"]) == 0
    assert weights("run") == weights("whole")
    assert f"going on after {int(at > 8)} epoch" in Path("run/train.log").read_text()


def test_before_the_first_step_and_after_the_last_it_is_at_once(place: Path, demo_env: dict[str, str]) -> None:
    script = SCRIPT.replace("pdl_demo.Fit.step = counted", "import pdl.train.assembly as a, pdl.workflow.training as t")
    early = script.replace("code = main", "t.assemble = lambda *a, **k: os.kill(os.getpid(), 15)\ncode = main")
    words = ["train", "-c", "recipe.yaml", "--run", "run", *SETTINGS]
    done = subprocess.run(
        [sys.executable, "-c", early, "x", "0", *words], capture_output=True, text=True, check=False, env=demo_env
    )
    assert done.returncode == 143, done.stderr
    assert done.stderr.endswith("ended by SIGTERM before the first checkpoint, so there is nothing to go on from\n")
    assert not Path("run").exists()
    late = script.replace("code = main", "t.write_report = lambda *a, **k: os.kill(os.getpid(), 1)\ncode = main")
    done = subprocess.run(
        [sys.executable, "-c", late, "x", "0", *words], capture_output=True, text=True, check=False, env=demo_env
    )
    assert done.returncode == 129, done.stderr
    assert done.stderr.endswith("ended by SIGHUP; go on with: pdl train --resume run\n")


class Fake:
    """As much of a trainer as the handler sees."""

    interruption: BaseException | None = None


def test_the_first_waits_for_the_step_and_the_second_does_not() -> None:
    before = signal.getsignal(signal.SIGTERM)
    trainer: Any = Fake()
    with pytest.raises(Interrupted, match=r"^ended by SIGTERM$") as caught:
        _twice(trainer)
    assert caught.value.exit_code == 143
    assert signal.getsignal(signal.SIGTERM) is before


def _twice(trainer: Any) -> None:
    with stoppable() as stopping:
        stopping.on_start(trainer)
        os.kill(os.getpid(), signal.SIGINT)
        assert isinstance(trainer.interruption, Stop)
        assert trainer.interruption.number == signal.SIGINT
        os.kill(os.getpid(), signal.SIGTERM)


def test_what_is_ignored_stays_so() -> None:
    """nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stoppable():
            os.kill(os.getpid(), signal.SIGHUP)
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


OWN_TERMINAL = """
import fcntl, sys, termios
from pdl.cli import main
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
sys.exit(main(sys.argv[1:]))
"""


def test_a_terminal_that_is_closed(place: Path, demo_env: dict[str, str]) -> None:
    """The training has a terminal of its own; closing it is what sends SIGHUP."""
    terminal, end = os.openpty()
    words = ["train", "-c", "recipe.yaml", "train.epochs=100000", "train.report=false"]
    child = subprocess.Popen(
        [sys.executable, "-c", OWN_TERMINAL, *words], stdin=end, stdout=end, stderr=end, env=demo_env,
        start_new_session=True,
    )  # fmt: skip
    os.close(end)
    said = b""
    while b"train/loss" not in said:
        said += os.read(terminal, 4096)
    os.close(terminal)
    assert child.wait(timeout=60) == 129
    (log,) = Path("runs").glob("*/train.log")
    assert log.read_text().splitlines()[-1] == "ended by SIGHUP; go on with: pdl train --resume runs/recipe-1"
