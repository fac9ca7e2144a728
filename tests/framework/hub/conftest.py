"""A package with an index of one's own, an empty cache, and no way out."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
import yaml

from pdl import hub, watch
from pdl.hub.cache import PART
from pdl.hub.index import Entry
from pdl.packages import Package
from tests.framework.hub.server import Server

INDEX = importlib.import_module("pdl.hub.index")  # `hub.index` is its function

CONTENT = bytes(range(256)) * 4  # of the file that the tests are about
FILE = "net.safetensors"


def model(content: bytes = CONTENT, **change: Any) -> dict[str, Any]:
    """An entry of `hub.yaml` without a fault; a value of None leaves its key out."""
    good = {
        "task": "fit",
        "summary": "bytes that count",
        "licence": "Apache-2.0",
        "origin": "written by the pdl authors",
        "pdl": ">=0.1",
        "file": FILE,
        "bytes": len(content),
        "sha256": sha256(content).hexdigest(),
        "sources": [{"package": f"weights/{FILE}"}],
    }
    return {key: value for key, value in (good | change).items() if value is not None}


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder, and an environment that names no other place."""
    for name in ("PDL_HUB", "PDL_OFFLINE", "PDL_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("no_proxy", "*")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "pdl" / "hub"


Offer = Callable[..., Entry]


@pytest.fixture
def offer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cache: Path) -> Offer:
    """offer("net", **keys): the package `demo` offers this entry (and those offered before), and no other does."""
    package = Package("demo", "pdl_demo", "1.0", tmp_path / "pdl_demo")
    package.folder.mkdir()
    models: dict[str, Any] = {}
    monkeypatch.setattr(INDEX, "offering", lambda: [package])

    def offer(key: str = "net", content: bytes = CONTENT, **change: Any) -> Entry:
        models[key] = model(content, **change)
        (package.folder / "hub.yaml").write_text(yaml.safe_dump({"format": 1, "models": models}, sort_keys=False))
        return hub.entry(f"demo/{key}")

    return offer


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as running:
        yield running


@pytest.fixture
def messages(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The sentences that a user is told."""
    lines: list[str] = []
    monkeypatch.setattr(watch, "note", lines.append)
    return lines


def files(cache: Path) -> dict[str, bytes]:
    """What lies in the cache under its final name."""
    return {path.name: path.read_bytes() for path in cache.rglob("*") if path.is_file() and path.suffix != PART}
