"""Damaged and hostile bundles end in a clear error or a correct run: no crash, no hang, no runaway memory."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


def attempts(first: int, count: int) -> dict[str, float]:
    """Outcomes of so many damaged bundles, tried in a process of their own."""
    command = [sys.executable, "-m", "tests.framework.runtime.damage", str(first), str(count)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    tail = done.stderr[-3000:]
    assert done.returncode == 0, f"number {tail.split()[-1] if tail else first}: {tail}"
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    assert found.get("refused", 0) + found.get("ran", 0) == count
    return found


def test_some_damaged_bundles() -> None:
    found = attempts(0, 90)
    assert found["refused"] > 45
    assert found["ran"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 3000, 500))
def test_two_thousand_damaged_bundles(first: int) -> None:
    assert attempts(first, 500)["refused"] > 250
