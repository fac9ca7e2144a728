"""Starting the processes of a training with Open MPI's `mpirun`, and ending them in good order."""

from __future__ import annotations

import codecs
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TextIO

from pdl.errors import PackageError, UsageError, listed
from pdl.threads import available_cores

NEEDS = "training with several processes needs Open MPI and mpi4py: pip install 'pdl-core[mpi]'"
#: what the starter of a job tells each of its processes: how many they are, and which this one is
_SIZES = ("OMPI_COMM_WORLD_SIZE", "PMIX_SIZE", "PMI_SIZE")
#: of a process of an elastic training, which is in no job of MPI
RANK = "PDL_ELASTIC_RANK"
_RANKS = (RANK, "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK")
#: what tells ranks to end after the step under way; mpirun hands it on
STOP = signal.SIGUSR1
#: in the environment of ranks: the columns of the terminal that their standard error ends on, if on one
TERMINAL = "PDL_TERMINAL"
#: in the environment of ranks: that they say when they have come
ROLL_CALL = "PDL_ROLL_CALL"
_HERE = re.compile(r"\x02rank (\d+)\n?")
#: takes a line of a terminal away
CLEAR = "\r\x1b[K"
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


def job_terminal() -> int | None:
    """Columns of the terminal that standard error of this process of a job ends on; None where it does not."""
    columns = os.environ.get(TERMINAL, "")
    return int(columns) if columns.isdigit() and job_size() > 1 else None


def come() -> None:
    """Let the starter of the job know that this process is about to meet the others."""
    if ROLL_CALL in os.environ:
        with suppress(OSError):
            os.write(sys.__stderr__.fileno() if sys.__stderr__ else 2, f"\x02rank {job_rank()}\n".encode())


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
    threads  of each process; by default as `threads_each` says
    bind     whether processes keep to cores of their own; not where others use the machine, too
    options  more of mpirun's
    """
    cores = available_cores()
    each = threads or threads_each(workers)
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


def threads_each(places: int) -> int:
    """Threads of each of so many processes of a machine: PDL_NUM_THREADS, or the cores of this one divided."""
    own = os.environ.get("PDL_NUM_THREADS", "")
    return int(own) if own.isdecimal() and int(own) else max(1, available_cores() // places)


def mpirun() -> str:
    """Open MPI's starter: that of this Python environment, or of the PATH. PackageError where there is none."""
    own = Path(sys.executable).with_name("mpirun")
    found = str(own) if own.is_file() else shutil.which("mpirun")
    if found is None:
        raise PackageError(NEEDS)
    return found


class RollCall:
    """Who of a job has come; where some have not after `timeout` seconds the job is ended, and they are named."""

    def __init__(self, line: Sequence[str], job: subprocess.Popen[bytes], timeout: float) -> None:
        hosts = [host.partition(":") for host in line[line.index("--host") + 1].split(",")] if "--host" in line else []
        names = [f" on {name}" for name, _, n in hosts for _ in range(int(n or 1))]
        self.missing = dict(enumerate(names or [""] * int(line[line.index("-n") + 1])))
        self.job, self.timeout, self.failed = job, timeout, False
        self._timer = threading.Timer(timeout, self._over)
        self._timer.daemon = True
        self._timer.start()

    def heard(self, text: str) -> str:
        """A line without what is for this."""
        for rank in _HERE.findall(text):
            self.missing.pop(int(rank), None)
        if not self.missing:
            self._timer.cancel()
        return _HERE.sub("", text)

    def close(self) -> None:
        """The job has ended."""
        self._timer.cancel()

    def _over(self) -> None:
        named = listed([f"rank {rank}{host}" for rank, host in sorted(self.missing.items())])
        self.failed = True
        _write(sys.stderr, f"{named}: not there after {self.timeout:g} s, so the job is ended; look at the machine, or "
               "allow more time (distributed.timeout)\n")  # fmt: skip
        self.job.terminate()


def start(line: Sequence[str], *, once: bool = False, timeout: float | None = None) -> int:
    """Run such a command until all its processes have ended; their exit code. What they say comes line by line, and a
    line that is to be rewritten, one that begins with a carriage return, at once.

    timeout  seconds that its ranks may take to come (`RollCall`); None: however long

    SIGINT, SIGTERM and SIGHUP are handed on as `STOP`, a second one ends the processes at once (`once`: does nothing).
    """
    environment = dict(os.environ)
    if os.geteuid() == 0:  # in containers; Open MPI asks to be told twice
        environment |= {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
    wide = shutil.get_terminal_size().columns if sys.stdout.isatty() else 10**6
    environment["COLUMNS"] = str(wide)  # mpirun gives ranks a terminal of their own
    if sys.stderr.isatty():
        environment[TERMINAL] = str(os.get_terminal_size(sys.stderr.fileno()).columns or 80)
        if Path(line[0]).name == "mpirun":  # the first rank may be on another machine
            line = [line[0], "-x", TERMINAL, *line[1:]]
    if timeout is not None:
        environment[ROLL_CALL] = "1"
        line = [line[0], "-x", ROLL_CALL, *line[1:]]
    try:
        job = subprocess.Popen(line, env=environment, stderr=subprocess.PIPE, start_new_session=True)
    except OSError as error:
        raise UsageError(f"{line[0]} cannot be started: {error}") from error
    roll = RollCall(line, job, timeout) if timeout is not None else None
    receive = _handed_on(job, once)  # one for all: a second signal may be another one
    before = {number: signal.signal(number, receive) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        assert job.stderr is not None
        with job.stderr as stream:
            drawn = False  # a line that is rewritten stands on the terminal
            for text in told(pieces(partial(os.read, stream.fileno(), 1 << 16))):
                if roll is not None and not (text := roll.heard(text)):
                    continue
                _write(sys.stderr, CLEAR + text if drawn and text[0] != "\r" else text)
                drawn = text[0] == "\r" and not text.endswith(("\n", CLEAR))
            if drawn:
                _write(sys.stderr, CLEAR)
        code = job.wait()
        return code if roll is None or not roll.failed else 1
    finally:
        if roll is not None:
            roll.close()
        for number, handler in before.items():
            signal.signal(number, handler)


def _handed_on(job: subprocess.Popen[bytes], once: bool) -> Any:
    seen: list[int] = []

    def receive(number: int, frame: Any) -> None:
        seen.append(number)
        if len(seen) == 1 or not once:
            job.send_signal(STOP if len(seen) == 1 else signal.SIGTERM)

    return receive


def pieces(read: Callable[[], bytes]) -> Iterator[str]:
    """What `read` gives until that is nothing, line by line; of a line that begins with a carriage return what there
    is."""
    decoder, held, data = codecs.getincrementaldecoder("utf-8")("replace"), "", b"\n"
    while data:
        data = read()
        found = re.split(r"(?<=\n)|(?=\r(?!\n))", held + decoder.decode(data.replace(b"\0", b""), final=not data))
        held = "" if not data or found[-1].startswith("\r") else found.pop()
        yield from filter(None, found)


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
    with suppress(OSError):  # the terminal is gone: the job ends in good order without
        stream.write(text)
        stream.flush()
