"""Weights by name: found on disk, trusted by sha256."""

from __future__ import annotations

from pathlib import Path

import pytest

from pdl import hub
from pdl.errors import DataError, UsageError

CONTENT, FILE = b"hello world", "net_small.safetensors"
SHA256 = "b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9"


@pytest.fixture
def folders(tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch, demo: None) -> tuple[Path, Path]:
    """A folder of the user's own and the one in the cache, both empty."""
    own, cached = tmp_path / "own", cache / SHA256
    own.mkdir()
    cached.mkdir(parents=True)
    monkeypatch.setenv("PDL_HUB", str(own))
    return own, cached


def test_index(demo: None) -> None:
    entry = hub.index()["demo/net_small"]
    assert (entry.file, entry.package.name) == (FILE, "demo")


@pytest.mark.parametrize("place", [0, 1])
def test_found(place: int, folders: tuple[Path, Path]) -> None:
    (folders[place] / FILE).write_bytes(CONTENT)
    assert hub.resolve("demo/net_small") == folders[place] / FILE
    assert hub.resolve("net_small") == folders[place] / FILE


def test_a_path_is_taken_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "mine.safetensors"
    file.write_bytes(CONTENT)
    assert hub.resolve(file) == file


def test_a_damaged_file_is_passed_over_and_reported(folders: tuple[Path, Path]) -> None:
    own, cache = folders
    (own / FILE).write_bytes(b"hello worlt")
    with pytest.raises(DataError, match=r"own/net_small.safetensors: has sha256 .* the published file b94d27"):
        hub.resolve("demo/net_small")
    (cache / FILE).write_bytes(CONTENT)
    assert hub.resolve("demo/net_small") == cache / FILE


def test_absent(folders: tuple[Path, Path]) -> None:
    with pytest.raises(DataError, match=r"is not to be had:\n.*: not there\n.*\n.*: not there\n  What helps"):
        hub.resolve("demo/net_small")


def test_unknown(demo: None) -> None:
    with pytest.raises(UsageError, match=r"did you mean 'demo/net_small'\?"):
        hub.resolve("demo/net_smal")
