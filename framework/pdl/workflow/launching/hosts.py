"""Several machines that this one reaches by ssh."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from pdl.checkpoint import LAST
from pdl.distributed.launcher import command, start, threads_each
from pdl.distributed.pods import RESTART, STOPPED
from pdl.errors import UsageError
from pdl.workflow.launching.common import matched

#: of RFC 1123, or an IPv4 address; such a name is no option of ssh
HOST = r"[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?(:[1-9]\d{0,3})?"


_REACH = 10  # seconds that a machine may take to answer
_VAIN = 3  # failures in a row without a checkpoint between them


def places(hosts: Sequence[str]) -> dict[str, int]:
    """How many processes each machine gets, of ``NAME`` or ``NAME:PLACES``; UsageError where that says something else,
    or one twice."""
    for host in hosts:
        matched("--hosts", host, HOST, "names of machines, as in node1:2,node2:2")
    found = {name: int(n or 1) for name, _, n in (host.partition(":") for host in hosts)}
    if len(found) < len(hosts) or not found:
        raise UsageError(f"--hosts {','.join(hosts)}: name each machine once, as in node1:2,node2:2")
    return found


def on_hosts(words: Sequence[str], hosts: Sequence[str], *, threads: int | None = None) -> list[str]:
    """The command line that runs ``pdl train WORDS`` on `hosts`, each ``NAME`` or ``NAME:PLACES``.

    Every machine needs this Python environment and this working directory at the same paths, the recipe and its data,
    and lets this one in by ssh without a password. `threads` are those of each process; by default PDL_NUM_THREADS, or
    the cores of this machine divided by the most places.
    """
    of = places(hosts)
    if shutil.which("ssh") is None:
        raise UsageError("--hosts: there is no ssh here; install it (Debian, Ubuntu: apt install openssh-client)")
    each = threads or threads_each(max(of.values()))
    told = [f"{name}:{n}" for name, n in of.items()]
    return command(["train", *words], sum(of.values()), hosts=told, threads=each)


def elastic(
    words: Sequence[str], hosts: Sequence[str], least: int, run: str, *, threads: int | None, timeout: float
) -> int:
    """Train over those of `hosts` that can be reached, as `on_hosts` does, into the folder `run`; after a failure
    again, from the last checkpoint, as long as they have `least` places. The exit code.

    timeout  seconds that processes may take to come, and that too few machines are waited for; then it is `RESTART`
    """
    last, vain = Path(run) / "checkpoints" / LAST, 0
    while True:
        begun, written = time.monotonic(), _written(last)
        while _size(there := [host for host in hosts if reachable(host)]) < least:
            if time.monotonic() - begun > timeout:
                _say(f"{len(there)} of {len(hosts)} machines can be reached, too few for {least} processes")
                return RESTART
            time.sleep(_REACH)
        begin = ["--resume"] if (Path(run) / "config.yaml").is_file() else []
        again = [*words, "--run", run, *begin, f"distributed.data={_size(there)}"]
        code = start(on_hosts(again, there, threads=threads), timeout=timeout)
        if code in (0, 2, 3, *STOPPED):
            return code
        vain = 0 if _written(last) != written else vain + 1
        if vain >= _VAIN:
            return code
        lost = [host for host in there if not reachable(host)]
        why = f"{', '.join(lost)} cannot be reached" if lost else f"the job ended with exit code {code}"
        _say(f"{why}; starting again from the last checkpoint")


def reachable(host: str) -> bool:
    """Whether a machine lets this one in."""
    line = ["ssh", "-o", "BatchMode=yes", "-o", f"ConnectTimeout={_REACH}", host.partition(":")[0], "true"]
    try:
        return subprocess.run(line, stdin=subprocess.DEVNULL, capture_output=True, timeout=2 * _REACH).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _size(hosts: Sequence[str]) -> int:
    return sum(places(hosts).values()) if hosts else 0


def _written(path: Path) -> int:
    return path.stat().st_mtime_ns if path.is_file() else 0


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()
