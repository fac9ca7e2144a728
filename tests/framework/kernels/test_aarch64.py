"""The portable build: cross-compiled for 64-bit ARM without a warning, its kernel and op tests run under QEMU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.slow
def test_the_portable_build_on_aarch64() -> None:
    done = subprocess.run(
        [sys.executable, "tools/check_aarch64.py"], cwd=ROOT, text=True, capture_output=True, check=False
    )
    if done.returncode == 77:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    assert "aarch64 generic" in done.stdout
