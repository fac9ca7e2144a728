"""Weights by name: found on disk, trusted by sha256."""

from __future__ import annotations

from pathlib import Path

import pytest

from pdl import hub
from pdl.errors import DataError, PdlError, UsageError

CONTENT, FILE = b"hello world", "net_small.safetensors"


@pytest.fixture
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, demo: None) -> tuple[Path, Path]:
    """A folder of the user's own and the cache, both empty."""
    own, cache = tmp_path / "own", tmp_path / "home" / "pdl" / "hub"
    own.mkdir()
    cache.mkdir(parents=True)
    monkeypatch.setenv("PDL_HUB", str(own))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    return own, cache


def test_index(demo: None) -> None:
    entry = hub.index()["demo/net_small"]
    assert (entry.weights.file, entry.suite.name) == (FILE, "demo")


@pytest.mark.parametrize("place", [0, 1])
def test_found(place: int, folders: tuple[Path, Path]) -> None:
    (folders[place] / FILE).write_bytes(CONTENT)
    assert hub.resolve("demo/net_small") == folders[place] / FILE


def test_a_path_is_taken_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "mine.safetensors"
    file.write_bytes(CONTENT)
    assert hub.resolve(file) == file


def test_a_damaged_file_is_passed_over_and_reported(folders: tuple[Path, Path]) -> None:
    own, cache = folders
    (own / FILE).write_bytes(b"hello worlt")
    with pytest.raises(DataError, match=r"own/net_small.safetensors has sha256 .* published file has sha256 b94d27"):
        hub.resolve("demo/net_small")
    (cache / FILE).write_bytes(CONTENT)
    assert hub.resolve("demo/net_small") == cache / FILE


def test_absent(folders: tuple[Path, Path]) -> None:
    with pytest.raises(DataError, match=r"not on this machine; looked in .*own, .*; put it into one of these folders"):
        hub.resolve("demo/net_small")


def test_unknown(demo: None) -> None:
    with pytest.raises(UsageError, match=r"did you mean 'demo/net_small'\?"):
        hub.resolve("demo/net_smal")


@pytest.mark.parametrize(("file", "sha256"), [("a/b", "0" * 64), ("a", "0" * 63), ("a", "G" * 64), ("..", "0" * 64)])
def test_a_wrong_table_is_refused(file: str, sha256: str) -> None:
    with pytest.raises(PdlError):
        hub.Weights(file=file, sha256=sha256, bytes=1, licence="Apache-2.0", source="nowhere")
