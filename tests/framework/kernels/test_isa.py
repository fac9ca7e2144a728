"""Every instruction set this CPU has gives the ops the same values: the kernel and value tests again, in a process of
their own.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from pdl.kernels import runtime

HERE = Path(__file__).parent
SETS = ["baseline", "avx2", "avx512", "avx512_vnni", "avx512_bf16", "amx_bf16"]


def run(isa: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Python with PDL_CPU set."""
    command = [sys.executable, *map(str, arguments)]
    env = os.environ | {"PDL_CPU": isa}
    return subprocess.run(command, env=env, text=True, capture_output=True, check=False, cwd=HERE.parents[2])


@pytest.mark.slow
@pytest.mark.parametrize("isa", [s for s in SETS if s != runtime.isa()])
def test_other_instruction_sets(isa: str) -> None:
    found = run(
        isa,
        "-c",
        "from pdl import threads as t; t.check_environment(); from pdl.kernels import runtime as r; print(r.isa())",
    )
    if found.returncode:
        assert "lacks the instruction set" in found.stderr
        pytest.skip(found.stderr.splitlines()[-1])
    assert found.stdout.strip() == isa
    chosen = ("-k", "not isa")
    done = run(isa, "-m", "pytest", "-q", "-p", "no:cacheprovider", HERE, HERE.parent / "ops", *chosen)
    assert done.returncode == 0, done.stdout[-3000:]


def test_an_unknown_instruction_set_is_refused() -> None:
    code = "import pdl; pdl.ones(2) + 1"
    for arguments in (("-m", "pdl", "info"), ("-c", code)):
        done = run("mmx", *arguments)
        assert done.returncode == (2 if "info" in arguments else 1)
        assert "it may be baseline, avx2, avx512, avx512_vnni, avx512_bf16 or amx_bf16" in done.stderr
