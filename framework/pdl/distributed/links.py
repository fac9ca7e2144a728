"""What messages between two processes of this machine take: ``measured()``. As a program (``mpirun -n 2 python -m
pdl.distributed.links``) it measures and prints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass

import numpy as np

from pdl.distributed.launcher import mpirun
from pdl.errors import PackageError

_SMALL, _LARGE, _TIMES = 64, 1 << 22, 12
_SECONDS = 60


@dataclass(frozen=True)
class Link:
    """bandwidth  bytes a second that a process sends while it receives as many
    latency    seconds of a message without bytes
    how        where the two are from"""

    bandwidth: float
    latency: float
    how: str

    def seconds(self, sent: float, messages: float) -> float:
        """Of so many bytes in so many messages, one after the other."""
        return sent / self.bandwidth + messages * self.latency


#: of Ethernet with 10 Gbit/s, where nothing is measured or said
STATED = Link(1.0e9, 50e-6, "stated, not measured")


def measured() -> Link:
    """Between two processes of this machine; `STATED` where there is no MPI."""
    try:
        line = [
            mpirun(),
            "-n",
            "2",
            "--map-by",
            ":OVERSUBSCRIBE",
            "--bind-to",
            "none",
            "--mca",
            "mpi_yield_when_idle",
            "1",
        ]
        environment = {**os.environ, "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
        line += [sys.executable, "-m", "pdl.distributed.links"]
        done = subprocess.run(line, env=environment, capture_output=True, text=True, timeout=_SECONDS, check=True)
        found = json.loads(done.stdout.splitlines()[-1])
        return Link(
            float(found["bandwidth"]), float(found["latency"]), "measured between two processes of this machine"
        )
    except (PackageError, OSError, subprocess.SubprocessError, ValueError, LookupError):
        return STATED


def _main() -> None:
    from pdl.distributed.group import world

    group = world()
    if group is None:
        return
    seconds = []
    for size in (_SMALL, _LARGE):
        array, times = np.zeros(size, np.uint8), []
        for _ in range(_TIMES):
            begin = time.perf_counter()
            group.rows(array)
            times.append(time.perf_counter() - begin)
        seconds.append(sorted(times)[_TIMES // 2])
    if group.rank == 0:
        latency = seconds[0]
        print(json.dumps({"latency": latency, "bandwidth": _LARGE / max(seconds[1] - latency, 1e-9)}))  # noqa: T201


if __name__ == "__main__":
    _main()
