"""A process of `pdl sweep --jobs`: trains the runs that it is told (`pdl.workflow.sweeps.workers`)."""

from __future__ import annotations

import json
import math
import os
import queue
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from pdl.cli.signals import Interrupted, Stopping, stoppable
from pdl.errors import PdlError
from pdl.workflow.leaderboards import begun
from pdl.workflow.run import Run
from pdl.workflow.sweeps.plans import ordered
from pdl.workflow.sweeps.running import Halted, Reporting


class Lines:
    """The lines of both ways. What else the process prints goes to standard error."""

    def __init__(self) -> None:
        self._out = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        self._come: queue.Queue[str] = queue.Queue()
        self.training = False
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in sys.stdin:
            self._come.put(line)
        self._come.put("")
        if self.training:  # the sweep has ended: so does the run under way, in good order
            os.kill(os.getpid(), signal.SIGTERM)

    def get(self) -> dict[str, Any]:
        """The next line; {} where none will come."""
        line = self._come.get()
        if not line:
            self._come.put("")  # whoever asks again must not wait either
        return dict(json.loads(line)) if line else {}

    def put(self, **message: Any) -> None:
        """A line to the sweep."""
        self._out.write(json.dumps(message) + "\n")
        self._out.flush()

    def evaluated(self, epoch: int, value: float, last: bool) -> str:
        """Ask whether to go on."""
        self.put(epoch=epoch, value=value if math.isfinite(value) else None, last=last)
        return str(self.get().get("stop", ""))


def main() -> int:
    """Until the input ends."""
    lines = Lines()
    try:
        with stoppable() as stopping:
            while order := lines.get():
                lines.training = True
                answer = _trained(order, lines, stopping)
                lines.training = False
                lines.put(**answer)
    except (Interrupted, BrokenPipeError):
        return 0
    return 0


def _trained(order: dict[str, Any], lines: Lines, stopping: Stopping) -> dict[str, str]:
    """What became of a run."""
    reporting = Reporting(lines.evaluated)
    try:
        begun(ordered(order), Run(Path(order["folder"])), False, [stopping, reporting])
    except Halted:
        return {"done": "stopped", "said": reporting.reason}
    except PdlError as error:
        return {"done": type(error).__name__, "said": str(error)}
    return {"done": "finished"}


if __name__ == "__main__":
    sys.exit(main())
