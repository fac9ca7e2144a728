"""The demo suite, installed for the session: a package, and the metadata that names its entry point."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from pdl import packages, suites

DEMO = Path(__file__).parent / "config" / "demo"


@pytest.fixture(scope="session")
def demo_path(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What PYTHONPATH needs for the demo suite to count as installed."""
    site = tmp_path_factory.mktemp("site")
    info = site / "pdl_demo-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: pdl-demo\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[pdl.suites]\ndemo = pdl_demo\n")
    return [str(DEMO), str(site)]


@pytest.fixture
def demo(demo_path: list[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The demo suite, and no other, for one test in this process."""
    monkeypatch.setattr(sys, "path", [*demo_path, *sys.path])
    packages.read.cache_clear()
    only = {"demo": suites.installed()["demo"]}
    packages.read.cache_clear()
    monkeypatch.setattr(suites, "installed", lambda: only)
    yield
    packages.read.cache_clear()


@pytest.fixture
def demo_env(demo_path: list[str]) -> dict[str, str]:
    """The environment of a child process that has the demo suite."""
    return {**os.environ, "PYTHONPATH": os.pathsep.join([*demo_path, os.environ.get("PYTHONPATH", "")])}
