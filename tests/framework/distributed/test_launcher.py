"""Signals that come to who has started a job."""

from __future__ import annotations

import signal
import sys
import time
from pathlib import Path

import pytest

from pdl.distributed.launcher import start

#: stands for mpirun: it sends its parent a signal of either kind, and says on standard error what it gets back
JOB = """
import os, signal, sys, time
for number in (signal.SIGUSR1, signal.SIGTERM):
    signal.signal(number, lambda n, _: print(signal.Signals(n).name, file=sys.stderr, flush=True))
for number in (signal.SIGINT, signal.SIGTERM):
    os.kill(os.getppid(), number)
    time.sleep(0.5)
"""


@pytest.mark.parametrize(("once", "said"), [(False, "SIGUSR1\nSIGTERM\n"), (True, "SIGUSR1\n")])
def test_a_second_signal_of_another_kind_is_the_second(
    once: bool, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    before = signal.getsignal(signal.SIGTERM)
    assert start([sys.executable, "-c", JOB], once=once) == 0
    assert capsys.readouterr().err == said
    assert signal.getsignal(signal.SIGTERM) is before


#: stands for mpirun and its ranks, of which the second does not come
RANKS = r"""
import sys, time
sys.stderr.write("\x02rank 0\nrank 0 says a word\n")
sys.stderr.flush()
time.sleep(20)
"""


def test_a_rank_that_does_not_come_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    starter = tmp_path / "starter"
    starter.write_text(f"#!/bin/sh\nexec {sys.executable} -c '{RANKS}'\n")
    starter.chmod(0o755)
    line = [str(starter), "-n", "3", "--host", "node1:2,node2:1"]
    begin = time.monotonic()
    assert start(line, timeout=3.0) == 1
    assert time.monotonic() - begin < 15
    said = capsys.readouterr().err
    assert "rank 1 on node1, rank 2 on node2: not there after 3 s" in said
    assert "rank 0 says a word" in said
    assert "\x02" not in said
