"""What the system refuses (space, a folder, memory) is one line with the path, the reason and what to do."""

from __future__ import annotations

import errno
import resource
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import pdl
from pdl.cli import main
from pdl.cli.app import _refused
from pdl.report.page import png

Capture = pytest.CaptureFixture[str]

#: what writes, with {} where the file or folder is named; what is written is larger than 100 bytes
WRITING = [
    "train -c cv/digits_lenet --run {} train.max_steps=1",
    "export run -o {}.pdl",
    "export run --to onnx -o {}.onnx",
    "compress run --to int8 -o {}.pdl",
    "predict run run/example.png --save {}",
    "predict run photos --out {}.csv",
    "graph cv/digits_lenet -o {}.svg",
    "init cv.classification --data photos --out {}.yaml",
    "init suite mine --out {}",
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run, a folder of images, and a file that is no folder."""
    where = tmp_path_factory.mktemp("refusals")
    settings = ["train.max_steps=1", "train.report=false"]
    assert main(["train", "-c", "cv/digits_lenet", "--run", str(where / "run"), *settings]) == 0
    for number in range(20):
        path = where / "photos" / "ab"[number % 2] / f"a rather long name of an image, number {number}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(png(np.full((8, 8, 1), number, np.uint8)))
    (where / "file").write_text("in the way")
    return where


@contextmanager
def limited(size: int) -> Iterator[None]:
    """No file grows beyond this many bytes, as on a full disk. No module is cached meanwhile: it would be cut."""
    caching, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    before = resource.getrlimit(resource.RLIMIT_FSIZE), signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[0][1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before[0])
        signal.signal(signal.SIGXFSZ, before[1])
        sys.dont_write_bytecode = caching


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.mark.parametrize("command", WRITING)
def test_where_nothing_can_be_written(
    command: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(folder)
    before = files(folder)
    for place, says in [("/proc/x", "/proc/x"), ("file/x", "file")]:
        assert main(command.format(place).split()) in (2, 3)
        last = capsys.readouterr().err.strip().splitlines()[-1]
        assert last.startswith(says)
        assert "; " in last, "what to do"
    assert files(folder) == before
    assert (folder / "file").read_text() == "in the way"


@pytest.mark.parametrize("command", WRITING)
def test_a_full_disk(command: str, folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    monkeypatch.chdir(folder)
    before = files(folder)
    with limited(100):
        code = main(command.format("full").split())
    said = capsys.readouterr().err
    assert code == 3, said
    assert said.strip().splitlines()[-1].startswith("full")
    assert "File too large; " in said
    assert "bug" not in said
    left = files(folder) - before
    assert all(Path(name).name == "full" for name in left if (folder / name).is_dir())
    assert [name for name in left if (folder / name).is_file()] == []
    for path in sorted((folder / name for name in left), reverse=True):
        path.rmdir()


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EROFS, errno.EACCES, errno.EMFILE])
def test_reasons_of_the_system(number: int) -> None:
    said = _refused(OSError(number, "the reason", "some/path"))
    assert said.startswith("some/path: the reason; ")


def test_no_memory(monkeypatch: pytest.MonkeyPatch, capsys: Capture) -> None:
    def refuse(*_: object, **__: object) -> None:
        np.empty(2**60, np.uint8)

    monkeypatch.setattr(pdl.workflow, "train", refuse)
    assert main(["train", "-c", "cv/digits_lenet"]) == 3
    assert capsys.readouterr().err.startswith("not enough memory: Unable to allocate")
