"""Signals that come to who has started a job."""

from __future__ import annotations

import signal
import sys

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
