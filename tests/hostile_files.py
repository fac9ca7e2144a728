"""Files that are no programs, damaged: PyTorch's weights, recipes, images, tables and arrays, by the number.

    python -m tests.hostile_files FIRST COUNT KIND      try so many numbers; prints what came of them as JSON
    python -m tests.hostile_files NUMBER 1 one KIND     show one, and run it in this process
"""

from __future__ import annotations

import gzip
import io
import os
import random
import sys
import tempfile
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path

import cv2
import numpy as np

from pdl.config import load
from pdl.config.named import shipped
from pdl.data.image import read_image
from pdl.errors import DataError, PdlError
from pdl.hub.torch_file import read_torch
from pdl.runtime import arrays, images, tables
from pdl.train.recipe import Recipe
from pdl_cv.data.archive import read_tar
from pdl_cv.data.idx import read_idx
from pdl_graph.data.columns import read_table
from pdl_graph.data.edge_text import read_edge_text
from pdl_graph.data.triples_file import read_triples
from pdl_graph.data.tu import TUGraphs
from pdl_quantum.data.columns import read_columns, read_matrix
from pdl_quantum.data.molecule_file import read_molecule
from pdl_quantum.problems.edges import read_edges
from pdl_quantum.qasm import load as load_qasm
from pdl_rec.data import tables as rec_tables
from tests.framework.hub.torch_made import legacy, state_dict, tensor, zipped
from tests.fuzzing import main, say

MARK = Path(tempfile.gettempdir()) / f"pdl-code-ran-{os.getpid()}"
"""What a file would make that got its code to run."""

Damage = Callable[[bytes, random.Random], bytes]


# -- ways to damage one ------------------------------------------------------------------------------------------------
def bits(data: bytes, r: random.Random) -> bytes:
    made = bytearray(data)
    for _ in range(r.choice([1, 1, 3, 20]) if made else 0):
        made[r.randrange(len(made))] ^= 1 << r.randrange(8)
    return bytes(made)


def cut(data: bytes, r: random.Random) -> bytes:
    return data[: r.randrange(len(data) + 1)]


def moved(data: bytes, r: random.Random) -> bytes:
    """A piece taken out, or put in again, maybe often."""
    a, b = sorted(r.randrange(len(data) + 1) for _ in range(2))
    return data[:a] + data[b:] if r.random() < 0.5 else data[:b] + data[a:b] * r.choice([1, 1, 2, 100]) + data[b:]


def numbers(data: bytes, r: random.Random) -> bytes:
    """A number of 1, 2, 4 or 8 bytes that is near an end of its range."""
    made, width = bytearray(data), r.choice([1, 2, 4, 8])
    if len(made) < width:
        return data
    at, value = r.randrange(len(made) - width + 1), r.choice([0, 1, -1, 2**31 - 1, 2**31, 2**40, 2**62, -2, 255])
    made[at : at + width] = (value % 256**width).to_bytes(width, r.choice(["little", "big"]))  # type: ignore[arg-type]
    return bytes(made)


WORDS = (
    b"\n", b",", b'"', b"\0", b"\xff", b"\xf0\x9f\x98\x80", b"-1", b"nan", b"1e999", b"9" * 30, b"[" * 200, b"{" * 50,
    b"&a [*a]", b"*a", b"<<: *a", b"${", b"${oc.env:HOME}", b"!!python/object/apply:os.system [touch x]", b"\t",
    b"#", b"${..}", b"_target_: os.system", b"\xef\xbb\xbf", b": ", b"- ", b"\r", b"(" * 300, b"inf", b"0x1F",
    b"1_000", b"&b " + b"[" * 5, b"A" * 5000,
)  # fmt: skip


def words(data: bytes, r: random.Random) -> bytes:
    for _ in range(r.choice([1, 1, 2, 5])):
        at = r.randrange(len(data) + 1)
        data = data[:at] + r.choice(WORDS) + data[at + r.choice([0, 0, 1, 4]) :]
    return data


def lines(data: bytes, r: random.Random) -> bytes:
    """Lines that change places, are there again, or go; or two that swap their ends."""
    rows = data.split(b"\n")
    a, b = r.randrange(len(rows)), r.randrange(len(rows))
    how = r.randrange(4)
    if how == 0:
        rows[a], rows[b] = rows[b], rows[a]
    elif how == 1:
        rows.insert(a, rows[b])
    elif how == 2:
        del rows[a]
    else:
        (x, s, y), (u, t, v) = rows[a].partition(b":"), rows[b].partition(b":")
        rows[a], rows[b] = x + s + v, u + t + y
    return b"\n".join(rows)


BINARY: list[Damage] = [bits, cut, moved, numbers]
TEXT: list[Damage] = [bits, cut, moved, words, words, lines, lines]


# -- what is damaged, and what reads it --------------------------------------------------------------------------------
class Runs:
    """What a hostile pickle holds."""

    def __reduce__(self) -> object:
        return os.system, (f"touch {MARK}",)


@cache
def weights() -> list[tuple[str, bytes]]:
    """Files of PyTorch, among them ones that would run code."""
    rng = np.random.default_rng(0)
    entries = {f"layer{i}.weight": tensor(rng.random((i + 1, 3)).astype(np.float32), str(i)) for i in range(6)}
    plain = {"state_dict": state_dict(entries), "epoch": 3, "lr": [0.1, (1, 2)]}
    return [
        ("x.pth", write(content, protocol=protocol))
        for write in (zipped, legacy)
        for content in (state_dict(entries), plain, {"a": Runs(), **entries})
        for protocol in (2, 4)
    ]


@cache
def recipes() -> list[tuple[str, bytes]]:
    return [("recipe.yaml", file.read_bytes()) for _, file in sorted(shipped().items())]


@cache
def photos() -> list[tuple[str, bytes]]:
    x = cv2.resize(np.random.default_rng(0).integers(0, 256, (5, 6, 3), np.uint8), (64, 48))
    return [(f"x{end}", bytes(cv2.imencode(end, x)[1])) for end in (".jpg", ".png", ".bmp", ".webp", ".tif", ".ppm")]


def _tar() -> bytes:
    import tarfile

    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w:gz") as archive:
        for name in ("train.txt", "valid.txt", "test.txt"):
            member = tarfile.TarInfo(name)
            member.size = 12
            archive.addfile(member, io.BytesIO(b"a\tr\tb\nb\tr\ta\n"))
    return data.getvalue()


def _npz() -> bytes:
    data = io.BytesIO()
    np.savez(data, one_body=np.eye(2), two_body=np.zeros((2,) * 4), constant=1.0, num_electrons=2)
    return data.getvalue()


def _npy() -> bytes:
    data = io.BytesIO()
    np.save(data, np.eye(4))
    return data.getvalue()


def _zip() -> bytes:
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in ("train.txt", "valid.txt", "test.txt"):
            archive.writestr(name, "a\tr\tb\nb\tr\ta\n")
    return data.getvalue()


TABLE = b"id,size,name,label\n" + b"".join(b'%d,%.3f,"a, %d",%c\n' % (i, i / 7, i, b"xy"[i % 2]) for i in range(20))
EDGES = b"# edges\n" + b"".join(b"%d %d\n" % (i, (i * 7) % 20) for i in range(20))
QASM = b"""OPENQASM 3.0;
include "stdgates.inc";
qubit[3] q;
for int i in [0:2] { h q[i]; }
rx(pi/2) q[0];
cx q[0], q[2];
"""
MOLECULE = b'{"name": "h2", "n_qubits": 2, "n_electrons": 2, "terms": [["I", -0.5], ["Z0Z1", 0.25], ["X0X1", 0.1]]}'
FCIDUMP = b"&FCI NORB=2,NELEC=2,MS2=0,\n ORBSYM=1,1,\n&END\n0.67 1 1 1 1\n0.66 2 2 1 1\n-1.25 1 1 0 0\n0.7 0 0 0 0\n"
TU = b"2\n3 0\n0 2 1 2\n1 1 0\n0 1 0\n2 1\n0 1 1\n1 1 0\n"
IDX = bytes([0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 3]) + bytes(range(18))


@cache
def sets() -> list[tuple[str, bytes]]:
    """A small file of every kind that data sets are read from."""
    return [
        ("x.csv", TABLE), ("x.csv.gz", gzip.compress(TABLE)), ("x.tsv", TABLE.replace(b",", b"\t")),
        ("x.slots", b"1 a:3 b:4\n0 a:5\n"), ("x.edges", EDGES), ("x.edges.gz", gzip.compress(EDGES)),
        ("x.triples", b"a\tr\tb\nb\ts\tc\n" * 5), ("x.tar.gz", _tar()), ("x.zip", _zip()), ("x.npz", _npz()),
        ("x.npy", _npy()), ("x.json", MOLECULE), ("x.fcidump", FCIDUMP), ("x.qasm", QASM), ("x.idx", IDX),
        ("x.idx.gz", gzip.compress(IDX)), ("x.tu", TU),
    ]  # fmt: skip


READERS: dict[str, list[Callable[[Path], object]]] = {
    ".csv": [read_table, lambda p: list(tables.rows(p)), lambda p: read_columns(p, ["size"]), read_edges,
             lambda p: rec_tables.read(rec_tables.source(p), {"id": "token", "size": "float"})],
    ".tsv": [read_table, lambda p: list(tables.rows(p)), lambda p: rec_tables.source(p).first_lines()],
    ".slots": [lambda p: list(tables.rows(p))],
    ".edges": [lambda p: read_edge_text(p, directed=False), read_edges,
               lambda p: read_edge_text(p, directed=True, weighted=True)],
    ".triples": [read_triples],
    ".tar": [lambda p: list(read_tar(p, lambda name: True)), read_triples],
    ".zip": [read_triples],
    ".npz": [read_molecule],
    ".npy": [read_matrix, lambda p: arrays.map_array(p).sum()],
    ".json": [read_molecule],
    ".fcidump": [read_molecule],
    ".qasm": [load_qasm],
    ".idx": [read_idx],
    ".tu": [lambda p: TUGraphs("MUTAG", path=p)],
}  # fmt: skip


def read_set(path: Path) -> None:
    """By every reader of such a file; DataError where none takes it. ValueError is what readers of plain arrays say."""
    refused, readers = 0, READERS[path.suffixes[0]]
    for reader in readers:
        try:
            reader(path)
        except PdlError:
            refused += 1
        except ValueError:
            if path.suffix != ".npy":
                raise
            refused += 1
    if refused == len(readers):
        raise DataError("no reader takes it")


def read_recipe(path: Path) -> None:
    """As far as `pdl config check` goes, and a step further: to the sections that tasks read."""
    Recipe(load(path))


def read_photo(path: Path) -> None:
    for mode in ("rgb", "gray"):
        try:
            image = images.read(path, mode)
        except PdlError:
            continue
        assert image.dtype == np.uint8
        assert image.ndim == 3
    read_image(path)


KINDS: dict[str, tuple[Callable[[], list[tuple[str, bytes]]], list[Damage], Callable[[Path], object]]] = {
    "weights": (weights, BINARY, read_torch),
    "recipes": (recipes, TEXT, read_recipe),
    "images": (photos, BINARY, read_photo),
    "data": (sets, [*BINARY, *TEXT], read_set),
}


def damaged(kind: str, number: int) -> tuple[str, bytes]:
    """The name and the bytes of a case."""
    r = random.Random(number)
    good, damages, _ = KINDS[kind]
    name, data = r.choice(good())
    for _ in range(r.choice([0, 1, 1, 1, 2, 4])):
        data = r.choice(damages)(data, r)
    return name, data


def outcome(kind: str, number: int) -> str:
    """ "read", "refused" (pdl's own error, which says something), "raw ..." or "code ran"."""
    name, data = damaged(kind, number)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(data)
        try:
            KINDS[kind][2](path)
        except PdlError as error:
            return "refused" if str(error) else "raw error that says nothing"
        except Exception as error:
            return f"raw {type(error).__name__}: {error}"
        finally:
            if MARK.exists():
                os._exit(77)
    return "read"


def show(kind: str, number: int) -> None:
    """The case, and what comes of it, with the traceback."""
    name, data = damaged(kind, number)
    say(name, data[:2000])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(data)
        try:
            say("read", KINDS[kind][2](path))
        except PdlError as error:
            say(repr(error))


if __name__ == "__main__":
    chosen = sys.argv.pop()
    main(lambda number: outcome(chosen, number), lambda number: show(chosen, number))
