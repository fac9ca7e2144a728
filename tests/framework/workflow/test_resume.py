"""kill -9 at many points; the run that is gone on with ends with the weights of the unbroken one, bit for bit."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from pdl import checkpoint

SCRIPT = Path(__file__).with_name("toy.py")
# 90 samples, batches of 8, two to a step: 6 steps an epoch, 4 epochs; checkpoints after every second step and every
# epoch
KILLS: list[list[tuple[str, int]]] = [
    [("step", 1)],  # before the first checkpoint
    [("step", 3), ("step", 2), ("step", 4)],  # between two, right behind one, at the end of an epoch
    [("step", 5), ("step", 1), ("step", 1), ("step", 24)],  # again and again at the same place; never reached
    [("write", 3), ("write", 1)],  # a checkpoint half written
    [("fsync", 2), ("fsync", 7)],  # written, not yet on the disk
    [("replace", 1), ("replace", 6)],  # on the disk, not yet in its place
]


def run(folder: Path, *kill: str) -> Any:
    command = [sys.executable, "-W", "ignore", "-m", "tests.framework.train.toy", str(folder), *kill]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=SCRIPT.parents[3])


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, list[dict[str, Any]]]:
    folder = tmp_path_factory.mktemp("unbroken")
    done = run(folder)
    assert done.returncode == 0, done.stderr
    return done.stdout, log(folder)


def log(folder: Path) -> list[dict[str, Any]]:
    """metrics.jsonl without the clock."""
    lines = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if k not in ("seconds", "samples_per_second")} for line in lines]


@pytest.mark.parametrize("kills", KILLS, ids=lambda kills: "-".join(f"{event}{count}" for event, count in kills))
def test_killed_and_resumed_equals_unbroken(
    tmp_path: Path, unbroken: tuple[str, list[Any]], kills: list[tuple[str, int]]
) -> None:
    deaths = [run(tmp_path, event, str(count)).returncode for event, count in kills]
    assert deaths[0] == -signal.SIGKILL
    assert set(deaths) <= {-signal.SIGKILL, 0}
    done = run(tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout == unbroken[0]
    assert log(tmp_path) == unbroken[1]
    assert not list(tmp_path.glob(".*.part"))


def test_the_latest_checkpoints_stay(tmp_path: Path) -> None:
    assert run(tmp_path).returncode == 0
    names = sorted(p.name for p in tmp_path.iterdir())
    assert names == [
        "best.safetensors",
        "last.safetensors",
        "metrics.jsonl",
        "step-00000022.safetensors",
        "step-00000024.safetensors",
    ]
    assert checkpoint.load(tmp_path / "step-00000022.safetensors")["state"]["step"] == 22
