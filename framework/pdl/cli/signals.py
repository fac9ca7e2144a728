"""Signals of a command that trains: they end it at the next step, with a checkpoint."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from pdl.distributed.launcher import STOP, job_size
from pdl.errors import PdlError
from pdl.train.hooks import Hook
from pdl.train.loop import Trainer

#: what ends a training in good order, and what it says: Ctrl-C, `kill`, a terminal that is closed
NAMES = {"SIGINT": "interrupted", "SIGTERM": "ended by SIGTERM", "SIGHUP": "ended by SIGHUP"}
if job_size() > 1:
    NAMES[STOP.name] = "interrupted"


class Interrupted(PdlError):
    """A signal ended the command; the message says how to go on, the exit code is 128 and its number."""

    def __init__(self, message: str, number: int = signal.SIGINT) -> None:
        super().__init__(message)
        self.exit_code = 128 + number


class Stop(KeyboardInterrupt):
    """A signal, as it ends a training."""

    def __init__(self, number: int) -> None:
        super().__init__(NAMES[signal.Signals(number).name])
        self.number = number


class Stopping(Hook):
    """Makes a signal the `interruption` of the training under way. Before its first step, after its last, and where
    one signal has come already, it is raised at once."""

    def __init__(self) -> None:
        self.trainer: Trainer | None = None
        self.terminals = [stream for stream in (sys.stdout, sys.stderr) if stream.isatty()]

    def on_start(self, trainer: Trainer) -> None:
        """From now on signals wait for a step."""
        self.trainer = trainer

    def on_end(self, trainer: Trainer) -> None:
        """No step is left to wait for."""
        self.trainer = None

    def close(self) -> None:
        """Nor is one where an error ended the training."""
        self.trainer = None

    def receive(self, number: int, frame: Any) -> None:
        """The handler."""
        if number == getattr(signal, "SIGHUP", None):
            self._leave_terminals()
        if self.trainer is None or self.trainer.interruption is not None:
            raise Stop(number)
        self.trainer.interruption = Stop(number)

    def _leave_terminals(self) -> None:
        """They are gone: what is still written to them goes nowhere."""
        for stream in self.terminals:
            with suppress(OSError, ValueError):  # a stream that is closed, or has no file
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


@contextmanager
def stoppable(how: str = "") -> Iterator[Stopping]:
    """Within the block signals end a training in good order, if it has the hook that is given; `Interrupted` says so,
    and `how` to go on where the training itself does not. The handlers that were there before come back; signals that
    are ignored (nohup) stay so.
    """
    hook = Stopping()
    before: dict[int, Any] = {}
    if threading.current_thread() is threading.main_thread():
        for name in NAMES:
            number = getattr(signal, name, None)
            if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
                before[number] = signal.signal(number, hook.receive)
    try:
        yield hook
    except KeyboardInterrupt as stop:
        number = stop.number if isinstance(stop, Stop) else signal.SIGINT
        what = NAMES[signal.Signals(number).name]
        raise Interrupted(f"{what}; {how}" if how else str(stop) or what, number) from None
    finally:
        for number, handler in before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
