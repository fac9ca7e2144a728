"""The linters that CONTRIBUTING names find nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
KERNELS = sorted(str(p) for p in (ROOT / "framework/pdl/kernels").glob("*.pyx"))
PROGRAMS = str(Path(sys.executable).parent)


def lint(*command: str) -> None:
    env = os.environ | {"PATH": f"{PROGRAMS}{os.pathsep}{os.environ.get('PATH', '')}"}
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-1000:]


def test_ruff() -> None:
    lint("ruff", "check", "--no-cache")


def test_cython_lint() -> None:
    lint("cython-lint", *KERNELS)


@pytest.mark.slow
def test_mypy() -> None:
    lint("mypy", "--cache-dir", os.devnull)
    lint("mypy", "--cache-dir", os.devnull, "-p", "pdl_newsuite", "-p", "pdl_newsuite.data")
