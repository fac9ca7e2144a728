"""What reads a file that somebody names: pipes, sockets, devices and links to them are one clear error, at once."""

from __future__ import annotations

import io
import os
import re
import signal
import socket
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdl import checkpoint, files
from pdl.config import load
from pdl.data.image import read_image
from pdl.data.store import file_hash
from pdl.errors import PdlError
from pdl.export.imported import import_model, labels_in, pipeline_of
from pdl.hub.states import read_state
from pdl.hub.torch_file import read_torch
from pdl.onnx import load_model
from pdl.runtime import arrays, bundle, images, tables
from pdl.workflow.run import Run
from pdl_cv.data.archive import read_tar
from pdl_cv.data.idx import read_idx
from pdl_cv.data.listing import ImageList
from pdl_cv.data.medmnist import MedMNIST
from pdl_graph.data.columns import read_table
from pdl_graph.data.edge_text import read_edge_text
from pdl_graph.data.npz import read_arrays
from pdl_graph.data.triples_file import read_triples
from pdl_graph.data.tu import TUGraphs
from pdl_graph.steps.graph_folder import pairs
from pdl_quantum.data.columns import read_columns, read_matrix
from pdl_quantum.data.mixed import MixedState
from pdl_quantum.data.molecule_file import read_molecule
from pdl_quantum.problems.edges import read_edges
from pdl_quantum.qasm import load as load_qasm
from pdl_rec.data import reading
from pdl_rec.data import tables as rec_tables

Reader = Callable[[Path], Any]

#: the name of a file -> what reads it
READERS: list[tuple[str, Reader]] = [
    ("x.bin", files.open_file),
    ("x.bin", files.read_bytes),
    ("x.txt", files.read_text),
    ("x.gz", files.read_plain),
    ("x.bin", files.map_file),
    ("x.npy", arrays.read_array),
    ("x.npy", arrays.map_array),
    ("x.npz", arrays.read_arrays),
    ("x.jpg", read_image),
    ("x.jpg", lambda path: images.read(path, "rgb")),
    ("x.csv", lambda path: list(tables.rows(path))),
    ("x.csv.gz", lambda path: list(tables.rows(path))),
    ("x.txt", lambda path: list(tables.rows(path))),
    ("x.pdl", bundle.read),
    ("x.yaml", load),
    ("x.yaml", pipeline_of),
    ("x.txt", lambda path: labels_in(str(path), None)),  # type: ignore[arg-type]
    ("x.onnx", load_model),
    ("x.onnx", import_model),
    ("x.pth", read_torch),
    ("x.pth", read_state),
    ("x.safetensors", read_state),
    ("x.ckpt", checkpoint.load),
    ("x.bin", file_hash),
    ("config.yaml", lambda path: Run.open(path.parent)),
    ("x.tar", lambda path: list(read_tar(path, lambda name: True))),
    ("x.idx", read_idx),
    ("x.idx.gz", read_idx),
    ("x.txt", ImageList),
    ("x.npz", lambda path: MedMNIST(path)),
    ("x.csv", read_table),
    ("x.csv.gz", read_table),
    ("x.parquet", read_table),
    ("x.txt", lambda path: read_edge_text(path, directed=False)),
    ("x.txt.bz2", lambda path: read_edge_text(path, directed=False)),
    ("x.npz", lambda path: read_arrays(path, {"x": "f"})),
    ("x.txt", read_triples),
    ("x.zip", read_triples),
    ("x.tar.gz", read_triples),
    ("x.txt", lambda path: TUGraphs("MUTAG", path=path)),
    ("x.csv", lambda path: list(pairs(path))),
    ("x.csv", lambda path: read_columns(path, None)),
    ("x.npy", read_matrix),
    ("x.npy", lambda path: MixedState(file=path)),
    ("x.json", read_molecule),
    ("x.npz", read_molecule),
    ("x.fcidump", read_molecule),
    ("x.csv", read_edges),
    ("x.qasm", load_qasm),
    ("x.csv", lambda path: rec_tables.source(path).first_lines()),
    ("x.csv", lambda path: list(reading.opened(path).__enter__())),
]


def fifo(path: Path) -> None:
    os.mkfifo(path)


def listening(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(os.path.relpath(path))


def zeros(path: Path) -> None:
    path.symlink_to("/dev/zero")


def terminal(path: Path) -> None:
    path.symlink_to("/dev/tty")


SPECIAL = {"a named pipe": fifo, "a socket": listening, "an endless device": zeros, "a terminal": terminal}


@pytest.fixture(autouse=True)
def _no_waiting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A reader that waits is a failure, not a test without end."""

    def late(*_: Any) -> None:
        raise AssertionError("it waits")

    monkeypatch.chdir(tmp_path)
    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.parametrize("kind", SPECIAL)
@pytest.mark.parametrize(("name", "reader"), READERS, ids=[f"{i}-{name}" for i, (name, _) in enumerate(READERS)])
def test_no_reader_waits_for_what_is_no_regular_file(name: str, reader: Reader, kind: str, tmp_path: Path) -> None:
    path = tmp_path / name
    SPECIAL[kind](path)
    with pytest.raises((PdlError, OSError)) as caught:
        reader(path)
    assert path.name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_path_with_a_zero_byte() -> None:
    with pytest.raises(OSError, match="a path with a zero byte"):
        files.read_bytes("a\0b")


def test_sizes_are_limited(tmp_path: Path) -> None:
    (tmp_path / "x").write_bytes(bytes(11))
    assert files.read_bytes(tmp_path / "x", 11) == bytes(11)
    with pytest.raises(OSError, match="11 bytes, more than the limit of 10"):
        files.read_bytes(tmp_path / "x", 10)


def test_files_that_do_not_say_their_size() -> None:
    if not Path("/proc/self/status").is_file():
        pytest.skip("no /proc")
    assert files.read_text("/proc/self/status").startswith("Name:")
    with pytest.raises(OSError, match="more than the limit of 10 bytes"):
        files.read_bytes("/proc/self/status", 10)


def test_what_unpacks_to_too_much(tmp_path: Path) -> None:
    import gzip

    (tmp_path / "x.gz").write_bytes(gzip.compress(bytes(1 << 24)))
    assert len(files.read_plain(tmp_path / "x.gz", 1 << 24)) == 1 << 24
    with pytest.raises(OSError, match="more than the limit"):
        files.read_plain(tmp_path / "x.gz", (1 << 24) - 1)


def test_lines_without_an_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MOST_LINE", 100)
    (tmp_path / "x.csv").write_text("a,b\n" + "1" * 200)
    with pytest.raises(PdlError, match=r"x.csv:2: a line of more than 100 letters"):
        list(tables.rows(tmp_path / "x.csv"))


# -- arrays ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("array", [np.arange(6.0).reshape(2, 3), np.zeros((0, 3)), np.array(3), np.array(["a", "bc"]),
                                   np.asfortranarray(np.arange(6).reshape(2, 3))], ids=str)  # fmt: skip
@pytest.mark.parametrize("read", [arrays.read_array, arrays.map_array])
def test_arrays_are_what_numpy_reads(array: np.ndarray, read: Reader, tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", array)
    found = read(tmp_path / "x.npy")
    assert (found.dtype, found.shape) == (array.dtype, array.shape)
    np.testing.assert_array_equal(found, array)


def header(text: str) -> bytes:
    padded = text.encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(padded).to_bytes(2, "little") + padded


HOSTILE = {
    "objects": (header("{'descr': '|O', 'fortran_order': False, 'shape': (1,)}"), "holds Python objects"),
    "huge": (header("{'descr': '<f8', 'fortran_order': False, 'shape': (1099511627776, 9)}"), "takes .* bytes"),
    "negative": (header("{'descr': '<f8', 'fortran_order': False, 'shape': (-3,)}"), "takes"),
    "nothing, often": (header("{'descr': '<U0', 'fortran_order': False, 'shape': (4611686018427387904,)}"), "takes 0"),
    "short": (header("{'descr': '<f8', 'fortran_order': False, 'shape': (3,)}") + bytes(8), "takes 24 bytes, the file"),
    "deep": (header("(" * 100), "header|parse"),
    "foreign": (b"\x93NUMPY\x09\x00" + bytes(100), "version 9.0"),
    "cut": (b"\x93NUM", "magic"),
}


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("read", [arrays.read_array, arrays.map_array])
def test_arrays_that_announce_what_they_do_not_hold(name: str, read: Reader, tmp_path: Path) -> None:
    data, said = HOSTILE[name]
    (tmp_path / "x.npy").write_bytes(data)
    with pytest.raises(ValueError, match=said):
        read(tmp_path / "x.npy")


LONG = "a," + "x" * 140_000  # a cell that is longer than Python's csv module takes


def zip_with_a_name_in_no_code() -> bytes:
    """A zip that says its member's name is UTF-8, which it is not."""
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        archive.writestr("tr\N{LATIN SMALL LETTER E WITH ACUTE}in.txt", "a\tb\tc\n")
    return held.getvalue().replace(b"\xc3\xa9", b"\xbb\xbb")


@pytest.mark.parametrize(
    ("name", "content", "reader"),
    [
        ("x.tar", b"\x1f\x8b\x08", lambda path: list(read_tar(path, lambda _: True))),
        ("x.csv", LONG.encode(), read_edges),
        ("x.csv", f'"h",r,t\n"{LONG}",r,t\n'.encode(), read_triples),
        ("x.zip", zip_with_a_name_in_no_code(), read_triples),
    ],
)
def test_damaged_text_and_archives(name: str, content: bytes, reader: Reader, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(PdlError, match=re.escape(str(path))):
        reader(path)
