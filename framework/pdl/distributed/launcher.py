"""Starting the processes of a training with Open MPI's `mpirun`, and ending them in good order."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, TextIO

from pdl.errors import PackageError, UsageError
from pdl.threads import available_cores

NEEDS = "training with several processes needs Open MPI and mpi4py: pip install 'pdl-core[mpi]'"
#: what the starter of a job tells each of its processes: how many they are, and which this one is
_SIZES = ("OMPI_COMM_WORLD_SIZE", "PMIX_SIZE", "PMI_SIZE")
_RANKS = ("OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK")
#: what tells ranks to end after the step under way; mpirun hands it on
STOP = signal.SIGUSR1
_RULE = "-" * 74
_KNOWN = ("MPI_ABORT was invoked", "exited due to process rank", "exited with non-zero status")


def job_size() -> int:
    """How many processes the job of this one has; 1 where it was not started by MPI."""
    return _told(_SIZES, 1)


def job_rank() -> int:
    """Which of them this one is."""
    return _told(_RANKS, 0)


def _told(names: Sequence[str], otherwise: int) -> int:
    return next((int(os.environ[name]) for name in names if os.environ.get(name, "").isdigit()), otherwise)


def end_job(code: int) -> None:
    """End all processes of the job with this exit code; where there is no MPI here, none has joined the others."""
    with suppress(ImportError, RuntimeError):
        from mpi4py import MPI

        MPI.COMM_WORLD.Abort(code)


def command(
    arguments: Sequence[str],
    workers: int,
    *,
    hosts: Sequence[str] = (),
    threads: int | None = None,
    bind: bool = True,
    options: Sequence[str] = (),
) -> list[str]:
    """The command line that starts `workers` processes ``pdl ARGUMENTS``.

    hosts    machines and their places, as in ``["node1:2", "node2:2"]``; by default this machine
    threads  of each process; by default the cores of this machine are divided among them
    bind     whether processes keep to cores of their own; not where others use the machine, too
    options  more of mpirun's
    """
    cores = available_cores()
    each = threads or max(1, cores // workers)
    line = [mpirun(), *options, "-n", str(workers)]
    if hosts:
        line += ["--host", ",".join(hosts)]
    if bind and (hosts or workers * each <= cores):
        line += ["--map-by", f"slot:PE={each}", "--bind-to", "core"]
    else:
        line += ["--map-by", ":OVERSUBSCRIBE", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]
    for name in sorted({"PDL_NUM_THREADS", *(n for n in os.environ if n.startswith("PDL_"))}):
        line += ["-x", f"{name}={each}" if name == "PDL_NUM_THREADS" else name]
    return [*line, sys.executable, "-m", "pdl", *arguments]


def mpirun() -> str:
    """Open MPI's starter: that of this Python environment, or of the PATH. PackageError where there is none."""
    own = Path(sys.executable).with_name("mpirun")
    found = str(own) if own.is_file() else shutil.which("mpirun")
    if found is None:
        raise PackageError(NEEDS)
    return found


def start(line: Sequence[str], *, once: bool = False) -> int:
    """Run such a command until all its processes have ended; their exit code.

    SIGINT, SIGTERM and SIGHUP are handed on as `STOP`, a second one ends the processes at once (`once`: does nothing).
    """
    environment = dict(os.environ)
    if os.geteuid() == 0:  # in containers; Open MPI asks to be told twice
        environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    wide = shutil.get_terminal_size().columns if sys.stdout.isatty() else 10**6
    environment["COLUMNS"] = str(wide)  # mpirun gives ranks a terminal of their own
    try:
        job = subprocess.Popen(line, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True)
    except OSError as error:
        raise UsageError(f"{line[0]} cannot be started: {error}") from error
    receive = _handed_on(job, once)  # one for all: a second signal may be another one
    before = {number: signal.signal(number, receive) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        assert job.stderr is not None
        with job.stderr:
            for text in told(job.stderr):
                _write(sys.stderr, text)
        return job.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _handed_on(job: subprocess.Popen[str], once: bool) -> Any:
    seen: list[int] = []

    def receive(number: int, frame: Any) -> None:
        seen.append(number)
        if len(seen) == 1 or not once:
            job.send_signal(STOP if len(seen) == 1 else signal.SIGTERM)

    return receive


def told(lines: Iterable[str]) -> Iterator[str]:
    """What the processes say, without mpirun's boxes about one that has ended, which has said itself why."""
    box: list[str] = []
    for text in lines:
        if text.strip() == _RULE:
            box.append(text)
            if len(box) > 1:
                if not any(known in line for line in box for known in _KNOWN):
                    yield from box
                box = []
        elif box:
            box.append(text)
        else:
            yield text
    yield from box


def _write(stream: TextIO, text: str) -> None:
    stream.write(text)
    stream.flush()
