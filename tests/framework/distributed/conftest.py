"""`ranks`: run a piece of Python on several MPI processes of this machine."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from pdl.distributed.launcher import mpirun

#: Open MPI refuses root, and more processes than cores, unless told
ENVIRONMENT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "PDL_NUM_THREADS": "1"}
Ranks = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def ranks(tmp_path: Path) -> Ranks:
    """``ranks(n, code)`` is the finished job; it must end well unless `code` is expected."""

    def run(n: int, code: str, *, expect: int = 0) -> subprocess.CompletedProcess[str]:
        script = tmp_path / "rank.py"
        script.write_text(textwrap.dedent(code))
        places = ["--map-by", ":OVERSUBSCRIBE", "--bind-to", "none", "--mca", "mpi_yield_when_idle", "1"]
        line = [mpirun(), "-n", str(n), *places, sys.executable, "-m", "mpi4py", str(script)]
        done = subprocess.run(
            line, cwd=tmp_path, env={**os.environ, **ENVIRONMENT}, capture_output=True, text=True, timeout=100
        )
        assert done.returncode == expect, f"exit code {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    return run
