"""`pdl models`, `pdl download` and `pdl hub`, on the demo suite and a cache of their own."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from pdl import hub
from pdl.cli import main, style

HELLO, FILE = b"hello world", "net_small.safetensors"
SHA256 = "b94d27b9934d3e08a52e52d7da7dabfac484efe37a5380ee9088f7ace2efcde9"
Capture = pytest.CaptureFixture[str]


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, demo: None) -> Path:
    """An empty cache, and the file of demo/net_small in a folder that PDL_HUB names."""
    own = tmp_path / "own"
    own.mkdir()
    (own / FILE).write_bytes(HELLO)
    monkeypatch.setenv("PDL_HUB", str(own))
    monkeypatch.setenv("PDL_CACHE", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "hub"


def said(capsys: Capture, *arguments: str, code: int = 0) -> Any:
    """What a command prints, read as JSON."""
    capsys.readouterr()
    assert main([*arguments, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_models(cache: Path, capsys: Capture, tmp_path: Path) -> None:
    found = said(capsys, "models", "net_*", "--task", "fit")
    assert [each["name"] for each in found["architectures"]] == ["net_small", "net_large"]
    assert found["architectures"][0]["target"] == "pdl_demo.Net"
    assert found["architectures"][0]["arguments"] == "width: 8"
    assert found["pretrained"] == []  # `net_*` is the beginning of a name, and those begin with the package
    [entry] = said(capsys, "models", "net_s")["pretrained"]
    assert (entry["name"], entry["bytes"], entry["cached"]) == ("demo/net_small", 11, True)
    assert (entry["path"], entry["incompatible"]) == (str(tmp_path / "own" / FILE), None)
    assert entry["metric"]["protocol"] == "none at all"
    (tmp_path / "own" / FILE).unlink()
    [entry] = said(capsys, "models", "demo/*")["pretrained"]
    assert (entry["cached"], entry["path"]) == (False, None)


def test_models_as_tables(cache: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    assert main(["models"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["pretrained", "task", "size", "reaches", "on", "licence", "cached"]
    assert lines[1].split() == ["demo/net_small", "fit", "11", "B", "test/loss", "0.25", "demo", "Apache-2.0", "yes"]
    assert lines[2] == ""
    assert lines[3].split() == ["to", "train", "task", "_target_", "arguments"]
    assert lines[5].split() == ["net_large", "fit", "pdl_demo.Net", "width:", "64"]
    monkeypatch.setattr("pdl.cli.models.FEW", 1)
    assert main(["models"]) == 0
    assert capsys.readouterr().out.splitlines()[4].split() == ["demo", "net", "fit", "net_small", "net_large"]
    assert main(["models", "nothing", "--task", "fit"]) == 2
    assert capsys.readouterr() == ("", "nothing is named like 'nothing' for the task 'fit'\n")
    assert main(["models", "net_smal"]) == 0
    assert main(["models", "net_smol"]) == 2
    assert capsys.readouterr().err == "nothing is named like 'net_smol'; did you mean 'net_small'?\n"


def test_models_tells_of_broken_indexes(cache: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    from pdl.errors import ConfigError

    monkeypatch.setattr(hub, "broken", lambda: {"x": ConfigError(["x/hub.yaml:3: a fault", "x/hub.yaml:7: another"])})
    assert main(["models", "net_small"]) == 0
    messages = capsys.readouterr()
    assert messages.err == "x/hub.yaml:3: a fault\nx/hub.yaml:7: another\n"
    assert "demo/net_small" in messages.out


def test_download(cache: Path, capsys: Capture, tmp_path: Path) -> None:
    there = str(tmp_path / "own" / FILE)
    assert said(capsys, "download", "net_small", "demo/*") == {"demo/net_small": there}
    assert main(["download", "demo/net_small", "--to", "out"]) == 0
    assert capsys.readouterr().out == f"{Path('out') / FILE}\n"
    assert (tmp_path / "out" / FILE).read_bytes() == HELLO
    assert main(["download", "net_small", "--to", "out"]) == 0
    (tmp_path / "out" / FILE).write_text("mine")
    assert main(["download", "net_small", "--to", "out"]) == 2
    assert "has 4 bytes, the published file 11; remove it, or choose another folder" in capsys.readouterr().err
    assert (tmp_path / "out" / FILE).read_text() == "mine"
    (tmp_path / "own" / FILE).unlink()
    assert main(["download", "net_small"]) == 3
    assert "is not to be had:" in capsys.readouterr().err


def test_hub(cache: Path, capsys: Capture, tmp_path: Path) -> None:
    """A cache that was made as a mirror, looked into and emptied."""
    assert said(capsys, "hub", "list") == {"cache": str(cache), "files": []}
    [made] = said(capsys, "hub", "mirror", str(cache))
    assert made == {"name": "demo/net_small", "path": str(cache / SHA256 / FILE), "state": "copied"}
    assert main(["hub", "mirror", str(cache), "net_small"]) == 0
    assert capsys.readouterr().out.split()[-4:] == ["demo/net_small", "11", "B", "there"]
    stray = cache / ("0" * 64) / "old.part"
    stray.parent.mkdir()
    stray.write_bytes(b"abc")
    bundle = cache / "built" / "some-key" / "net_small.pdl"
    bundle.parent.mkdir(parents=True)
    bundle.write_bytes(b"12345")
    files = said(capsys, "hub", "list")["files"]
    assert [(each["name"], each["bytes"], each["state"]) for each in files] == [
        ("demo/net_small", 11, "fetched"), ("demo/net_small", 5, "built"), (None, 3, "unlisted"),
    ]  # fmt: skip
    assert main(["hub", "list"]) == 0
    messages = capsys.readouterr().out
    assert f"cache  {cache}" in messages
    assert "19 B" in messages
    assert ["demo/net_small", "16", "B", "fetched", "and", "built"] in [line.split() for line in messages.splitlines()]
    assert "000000000000... (no package lists it)" in messages
    assert [each["name"] for each in said(capsys, "hub", "clear", "net")] == ["demo/net_small"] * 2
    assert main(["hub", "clear", "*"]) == 0
    assert capsys.readouterr().out == "removed: 1 files, 3 B\n"
    assert sorted(path.name for path in cache.iterdir()) == ["SHA256SUMS", "built"]


class Terminal(io.StringIO):
    """A screen, kept as the lines that one would see at each moment."""

    def isatty(self) -> bool:
        return True


def test_progress(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    style.progress("a/b", 0, 3_000_000)
    style.progress("a/b", 3_000_000, 3_000_000)
    assert capsys.readouterr().err == "fetching a/b (3.0 MB)\n"
    screen = Terminal()
    monkeypatch.setattr(sys, "stderr", screen)
    style.progress("a/b", 1_500_000, 3_000_000)
    assert "a/b  [##########          ]  50%  1.5 MB of 3.0 MB  0 B/s" in screen.getvalue()
    style.error("it broke")  # the line of the transfer is gone before
    assert screen.getvalue().endswith("0 B/s\r\x1b[Kit broke\n")


@pytest.mark.parametrize(("count", "text"), [(0, "0 B"), (999, "999 B"), (69_745, "69.7 kB"), (10_900_000, "10.9 MB")])
def test_size(count: int, text: str) -> None:
    assert style.size(count) == text
