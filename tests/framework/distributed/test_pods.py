"""The pods of a Job: who may join, what the daemons are given, and what the exit codes say."""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from pdl.distributed import pods
from pdl.distributed.pods import RESTART, Follower, Lead, daemon
from pdl.errors import UsageError

from .conftest import ENVIRONMENT

KEY = b"key"
DAEMON = [
    "--leave-session-attached",
    "--prtemca",
    "ess",
    "env",
    "--prtemca",
    "prte_hnp_uri",
    "a@0.0;tcp://10.0.0.1:5:24",
]


@pytest.fixture
def lead(tmp_path: Path) -> Iterator[Lead]:
    (tmp_path / "lead").mkdir()
    lead = Lead(["job-1"], KEY, 0, str(tmp_path / "lead"))
    yield lead
    lead.close()


@pytest.fixture
def follow(lead: Lead, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., list[int]]]:
    """``follow(script)`` joins the lead, a shell script in the place of the daemon; the list gets the exit code."""
    monkeypatch.setattr(pods, "SIGNS", tmp_path)
    before = signal.getsignal(signal.SIGTERM)

    def begin(script: str = "", *, key: bytes = KEY, name: str = "job-1") -> list[int]:
        monkeypatch.setattr(pods, "daemon", lambda words: ["sh", "-c", script, *daemon(words)])
        follower, codes = Follower(name, key, ("127.0.0.1", lead.pods.address[1])), list[int]()
        threading.Thread(target=lambda: codes.append(follower.run()), daemon=True).start()
        return codes

    yield begin
    signal.signal(signal.SIGTERM, before)


def mpirun(*, sh: bool = False) -> list[str]:
    """A shell script that starts a daemon on job-1 as mpirun does, for a user of bash or of sh."""
    words = ["PRTE_PREFIX=/x;export PRTE_PREFIX;/x/bin/prted", *(shlex.quote(word) for word in DAEMON)]
    words = ["( test ! -r ./.profile || . ./.profile;", *words, ")"] if sh else words
    agent = shlex.join([sys.executable, "-m", "pdl.distributed.pods", "job-1", *words])
    return ["bash", "-c", agent]


def until(done: Callable[[], object]) -> None:
    end = time.monotonic() + 20
    while not done():
        assert time.monotonic() < end
        time.sleep(0.02)


@pytest.mark.parametrize("sh", [False, True])
def test_a_daemon_gets_what_mpirun_says(sh: bool, lead: Lead, follow: Callable[..., list[int]], tmp_path: Path) -> None:
    codes = follow(f'printf "%s\\n" "$@" > {shlex.quote(str(tmp_path / "told"))}')
    lead.wait()
    assert lead.run(mpirun(sh=sh)) == 0
    assert (tmp_path / "told").read_text().splitlines() == DAEMON
    assert (tmp_path / "started").exists()
    lead.dismiss()
    until(lambda: codes)
    assert codes == [0]


def test_a_failure_is_the_jobs(lead: Lead, follow: Callable[..., list[int]]) -> None:
    follow("exit 7")
    lead.wait()
    assert lead.run(mpirun()) == 1  # what the agent tells mpirun, which ends
    assert lead.run(["sh", "-c", "exit 3"]) == 3


@pytest.mark.parametrize("other", [{"key": b"guess"}, {"name": "job-9"}])
def test_others_may_not_join(lead: Lead, follow: Callable[..., list[int]], other: dict[str, object]) -> None:
    follow(**other)
    time.sleep(0.5)
    assert not lead.lines
    follow()
    lead.wait()


def test_a_pod_that_is_lost_begins_the_job_again(
    lead: Lead, follow: Callable[..., list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pods, "PATIENCE", 60.0)
    codes = follow("exec sleep 3")
    lead.wait()
    with socket.socket(fileno=os.dup(lead.lines["job-1"].connection.fileno())) as line:
        threading.Timer(1.5, line.shutdown, [socket.SHUT_RDWR]).start()
        assert lead.run(["bash", "-c", f"{mpirun()[2]}; sleep 2; exit 1"]) == RESTART
    assert lead.lost == "job-1"
    until(lambda: codes)
    assert codes == [RESTART]


def test_a_pod_that_is_told_to_end_ends_the_training_first(lead: Lead, follow: Callable[..., list[int]]) -> None:
    follow("exec sleep 30")
    lead.wait()

    def tell() -> None:
        until(lambda: lead.running)
        time.sleep(1)
        for _ in range(3):  # those of all pods, when a Job is deleted
            os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=tell).start()
    began = time.monotonic()
    assert lead.run(["bash", "-c", "trap 'sleep 0.5; exit 138' USR1; for i in {1..100}; do sleep 0.1; done"]) == RESTART
    assert time.monotonic() - began < 9


@pytest.mark.parametrize("words", [["--prtemca", "a b", "c"], ["--debug-devel"], ["sh", "-c", "x"], ["--prtemca"]])
def test_no_other_program_can_be_asked_for(words: list[str]) -> None:
    with pytest.raises(UsageError, match="no argument of Open MPI's daemon"):
        daemon(words)


def test_one_pod_trains(tmp_path: Path) -> None:
    words = ["train", "-c", "cv/digits_lenet", "--run", str(tmp_path / "run"), "distributed.data=2"]
    line = [sys.executable, "-m", "pdl.distributed.pods", "--nodes", "1", "--places", "2", "--threads", "1", *words]
    line += ["--fast-dev-run", "train.export=false", "train.report=false"]
    environment = os.environ | ENVIRONMENT | {"TMPDIR": str(tmp_path)}
    done = subprocess.run(line, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    assert "2 processes on" in done.stderr
    assert {"alive", "started"} <= {each.name for each in tmp_path.iterdir()}
    assert pods._going_on(words) == [*words, "--resume"]
    assert pods._going_on(["train", "--run", str(tmp_path / "other")]) == ["train", "--run", str(tmp_path / "other")]
