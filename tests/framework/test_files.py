"""A file is there whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from pdl.files import is_part, replacing, write_atomic


def test_content_replaces_content(tmp_path: Path) -> None:
    file = tmp_path / "a.txt"
    for content in (b"one", "zw\u00f6lf", [b"th", memoryview(b"ree")]):
        write_atomic(file, content)
    assert file.read_bytes() == b"three"
    write_atomic(file, "zw\u00f6lf")
    assert file.read_text(encoding="utf-8") == "zw\u00f6lf"
    assert list(tmp_path.iterdir()) == [file]


def test_a_failed_write_leaves_the_old_content_and_nothing_else(tmp_path: Path) -> None:
    file = tmp_path / "a.npy"
    write_atomic(file, b"old")

    def broken() -> None:
        with replacing(file) as part:
            part.write_bytes(b"half")
            raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        broken()
    assert file.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [file]


def test_what_a_kill_leaves_is_known_by_its_name(tmp_path: Path) -> None:
    with replacing(tmp_path / "last.safetensors") as part:
        part.write_bytes(b"x")
        assert is_part(part)
        assert part.suffix == ".safetensors"
    assert not any(map(is_part, [Path(".git"), Path("last.safetensors"), Path(".x.12345678"), Path(".1.2.3")]))


def test_no_file_takes_the_place_of_a_pipe_or_of_a_link_to_a_device(tmp_path: Path) -> None:
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to(os.devnull)
    for place, kind in ((pipe, "a named pipe"), (link, "a device")):
        with pytest.raises(OSError, match=f"{kind}, not a regular file"):
            write_atomic(place, b"data")
    assert pipe.is_fifo()
    assert link.is_symlink()
