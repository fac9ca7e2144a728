"""Cases by the number, run in children of this process: a crash or a hang is an outcome, not the end of the test.

A module of cases defines ``outcome(number) -> str``, and ends with ``main(outcome, show)``:

    python -m MODULE FIRST COUNT     try so many numbers; prints what came of them as JSON
    python -m MODULE NUMBER 1 one    show one, and run it in this process

An outcome that begins with "raw" is an exception that is not pdl's own.
"""

from __future__ import annotations

import contextlib
import datetime
import faulthandler
import json
import os
import resource
import select
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
SECONDS = 10.0  # of CPU time for one number,
PATIENCE = 120.0  # and of any time
MEMORY = 8 << 30  # bytes of address space that a child may take beyond what this process has
PARTS = 5
SEED = "PDL_FUZZ_SEED"  # the variable that names the seed; by default the day

Outcome = Callable[[int], str]


# -- in a test ---------------------------------------------------------------------------------------------------------
def seed() -> int:
    """What `PDL_FUZZ_SEED` names, else the number of the day."""
    return int(os.environ.get(SEED) or datetime.date.today().toordinal())


def require_clean(module: str, count: int, part: int | None, *words: str, patience: float = 1800) -> dict[str, int]:
    """The outcomes of a part of the seed's numbers of a module (None: of the numbers from 0), tried in a process of its
    own; AssertionError, with how to see it again, where one crashed, hung or raised what is not pdl's own."""
    first = 0 if part is None else (seed() * PARTS + part) * count
    found = said_by(module, str(first), str(count), *words, patience=patience)
    faults = {name: found[name] for name in ("crashed", "hung", "raw") if found[name]}
    again = " ".join(("python -m", module, "NUMBER 1 one", *words))
    assert not faults, f"{SEED}={seed()}, part {part}; one of them again: {again}\n{json.dumps(faults)}"
    return dict(found["counts"])


def said_by(module: str, *words: str, patience: float = 600) -> Any:
    """What a module prints as JSON, run in a process of its own: it may crash, and must end."""
    paths = [str(ROOT), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    done = subprocess.run(
        [sys.executable, "-m", module, *words], cwd=ROOT, capture_output=True, text=True, check=False, timeout=patience,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
    )  # fmt: skip
    assert done.returncode == 0, f"{module} {' '.join(words)}: exit {done.returncode}\n{done.stderr[-3000:]}"
    return json.loads(done.stdout.splitlines()[-1])


# -- in the process of a module ----------------------------------------------------------------------------------------
def main(outcome: Outcome, show: Callable[[int], object]) -> None:
    """Do what the arguments of the module say."""
    first, count, *words = sys.argv[1:]
    if "one" in words:
        faulthandler.enable()
        show(int(first))
    else:
        say(json.dumps(try_all(int(first), int(count), outcome)))


def say(*lines: Any) -> None:
    """Write lines to standard output."""
    sys.stdout.write("".join(f"{line}\n" for line in lines))
    sys.stdout.flush()


def try_all(first: int, count: int, run: Outcome) -> dict[str, Any]:
    """Outcomes of the numbers, run in children: how often each came ("counts"), which numbers "crashed" and by which
    signal, which "hung", and which ended in a "raw" exception."""
    counts: dict[str, int] = {}
    faults: dict[str, list[Any]] = {"crashed": [], "hung": [], "raw": []}

    def count_one(number: int, said: str) -> None:
        if said.startswith("raw"):
            faults["raw"].append([number, said])
        counts[said.partition(":")[0]] = counts.get(said.partition(":")[0], 0) + 1

    number, end = first, first + count
    while number < end:
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(read)
            with contextlib.suppress(BaseException):
                _child(range(number, end), write, run)
            os._exit(99)
        os.close(write)
        number, ended = _follow(read, child, number, count_one)
        os.close(read)
        if not ended:
            os.kill(child, signal.SIGKILL)
            faults["hung"].append(number)
            number += 1
        status = os.waitpid(child, 0)[1]
        if ended and number < end:
            by = os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
            faults["crashed"].append([number, by])
            number += 1
    return {"counts": dict(sorted(counts.items())), **faults}


def _child(numbers: range, out: int, run: Outcome) -> None:
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
    for number in numbers:
        os.write(out, f"{_shortened(run(number))}\n".encode())
    os._exit(0)


def _shortened(said: str) -> str:
    return " ".join(said.split())[:300]


def _follow(read: int, child: int, number: int, count_one: Callable[[int, str], None]) -> tuple[int, bool]:
    """Count a child's outcomes; the number it stopped at, and whether it ended (else one took too long)."""
    rest = b""
    while True:
        begun, waited = _cpu_seconds(child), 0.0
        while not select.select([read], [], [], SECONDS)[0]:
            waited += SECONDS
            if _cpu_seconds(child) - begun > 0.9 * SECONDS or waited > PATIENCE:
                return number, False
        data = os.read(read, 1 << 16)
        if not data:
            return number, True
        *lines, rest = (rest + data).split(b"\n")
        for line in lines:
            count_one(number, line.decode(errors="replace"))
            number += 1


def _cpu_seconds(child: int) -> float:
    """What a process has computed; on a busy machine less than the time that went by."""
    fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
