"""The files of Planetoid, SEAL, SNAP and ASU as they are published, made here in small, and what is made of them."""

from __future__ import annotations

import gzip
import os
import pickle
import struct
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdl.data import DataFault
from pdl.hub.gathering import content_hash
from pdl.hub.public import public_set
from pdl_graph.data import BlogCatalog, CaAstroPh, LinkGraph, Planetoid, originals
from pdl_graph.data.blogcatalog import FILES
from pdl_graph.data.mat_file import read_sparse
from pdl_graph.data.planetoid_file import Sparse, read_pickle

GLOBALS = {
    "csr": ("scipy.sparse.csr", "csr_matrix"), "array": ("numpy.core.multiarray", "_reconstruct"),
    "ndarray": ("numpy", "ndarray"), "dtype": ("numpy", "dtype"), "new": ("copy_reg", "_reconstructor"),
    "object": ("__builtin__", "object"), "dict": ("collections", "defaultdict"), "list": ("__builtin__", "list"),
}  # fmt: skip


class Python2:
    """What cPickle of Python 2 writes, in protocol 0 or 2, of the values that these files hold."""

    def __init__(self, protocol: int) -> None:
        self.protocol = protocol

    def dumps(self, value: Any) -> bytes:
        return (b"\x80\x02" if self.protocol else b"") + self.of(value) + b"."

    def of(self, value: Any) -> bytes:
        if isinstance(value, Sparse):
            return self.matrix(value)
        if isinstance(value, np.ndarray):
            return self.array(value)
        if isinstance(value, dict):  # a defaultdict(list)
            items = b"".join(self.of(key) + self.of(each) + b"s" for key, each in value.items())
            return self.called("dict", self.named("list")) + items
        if isinstance(value, list):
            return b"(l" + b"".join(self.of(each) + b"a" for each in value)
        if isinstance(value, tuple):
            return b"(" + b"".join(map(self.of, value)) + b"t"
        if value is None:
            return b"N"
        if isinstance(value, bool):
            return (b"\x88" if value else b"\x89") if self.protocol else (b"I01\n" if value else b"I00\n")
        if isinstance(value, int):
            return b"J" + struct.pack("<i", value) if self.protocol else f"I{value}\n".encode()
        return self.text(value)

    def text(self, value: bytes | str) -> bytes:
        data = value if isinstance(value, bytes) else value.encode()
        if self.protocol:
            return b"T" + struct.pack("<I", len(data)) + data
        return b"S" + repr(data)[1:].encode() + b"\n"

    def named(self, name: str) -> bytes:
        return "c{}\n{}\n".format(*GLOBALS[name]).encode()

    def called(self, name: str, *arguments: bytes) -> bytes:
        return self.named(name) + b"(" + b"".join(arguments) + b"tR"

    def array(self, value: np.ndarray) -> bytes:
        kind = self.called("dtype", self.of(value.dtype.str[1:]), self.of(0), self.of(1))
        kind += self.of((3, "<", None, None, None, -1, -1, 0)) + b"b"
        made = self.called("array", self.named("ndarray"), self.of((0,)), self.of("b"))
        memo = b"q\x01h\x01" if self.protocol else b"p1\ng1\n"
        state = b"(" + self.of(1) + self.of(value.shape) + kind + self.of(False) + self.text(value.tobytes()) + b"t"
        return made + memo + b"0" + state + b"b"

    def matrix(self, value: Sparse) -> bytes:
        if self.protocol:
            made = self.named("csr") + b")\x81"
        else:
            made = self.called("new", self.named("csr"), self.named("object"), b"N")
        parts = {"_shape": value.shape, "data": value.data, "indices": value.indices.astype(np.int32),
                 "indptr": value.indptr.astype(np.int32), "maxprint": 50}  # fmt: skip
        items = b"".join(self.text(name) + self.of(each) + b"s" for name, each in parts.items())
        return made + b"(d" + items + b"b"


def sparse(dense: np.ndarray) -> Sparse:
    """Each row's columns in descending order, as some of the files have them."""
    rows, columns = np.nonzero(dense)
    order = np.lexsort((-columns, rows))
    rows, columns = rows[order], columns[order]
    starts = np.searchsorted(rows, np.arange(len(dense) + 1))
    return Sparse(dense[rows, columns].astype(np.float32), columns, starts, (dense.shape[0], dense.shape[1]))


def hot(labels: np.ndarray, classes: int) -> np.ndarray:
    return (labels[:, None] == np.arange(classes)).astype(np.int32)


WORDS, FIRST, TRAIN, CLASSES = 7, 12, 3, 7
ORDER = np.array([16, 12, 14, 13])  # of the test nodes; 15 has neither words nor a field
GRAPH = {0: [1, 1, 0, 16], 1: [0], 5: [2], 2: [5, 12], 16: [0], 12: [2], 15: [], 3: [4]}


def write_planetoid(folder: Path, protocol: int) -> tuple[dict[str, Path], np.ndarray, np.ndarray]:
    """The files, the words of all nodes and their fields."""
    rng = np.random.default_rng(4)
    x, y = (rng.random((17, WORDS)) < 0.4) * rng.random((17, WORDS)), rng.integers(0, CLASSES, 17)
    x[15], y[15] = 0, -1
    held = {
        "x": sparse(x[:TRAIN]), "tx": sparse(x[ORDER]), "allx": sparse(x[:FIRST]), "graph": GRAPH,
        "y": hot(y[:TRAIN], CLASSES), "ty": hot(y[ORDER], CLASSES), "ally": hot(y[:FIRST], CLASSES),
    }  # fmt: skip
    paths = {f"ind.cora.{part}": folder / f"ind.cora.{part}" for part in (*held, "test.index")}
    for part, value in held.items():
        paths[f"ind.cora.{part}"].write_bytes(Python2(protocol).dumps(value))
    paths["ind.cora.test.index"].write_text("\n".join(map(str, ORDER)) + "\n")
    return paths, x, y


@pytest.mark.parametrize("protocol", [0, 2])
def test_planetoid(tmp_path: Path, protocol: int) -> None:
    paths, x, y = write_planetoid(tmp_path, protocol)
    originals.planetoid(paths, tmp_path, name="cora")
    with np.load(tmp_path / "cora.npz") as held:
        assert held["edges"].tolist() == [[0, 1], [0, 16], [2, 5], [2, 12], [3, 4]]
        assert held["y"].tolist() == y.tolist()
        dense = np.zeros(held["x_shape"], np.float32)
        dense[np.repeat(np.arange(17), np.diff(held["x_indptr"])), held["x_indices"]] = held["x_data"]
        np.testing.assert_array_equal(dense, x.astype(np.float32))
        assert held["train_idx"].tolist() == [0, 1, 2]
        assert held["test_idx"].tolist() == [12, 13, 14, 16]
        assert held["val_idx"].tolist() == list(range(3, 12))
    data = Planetoid("cora", "test", path=tmp_path / "cora.npz")
    assert len(data) == 4
    first = content_hash(tmp_path / "cora.npz")
    originals.planetoid(paths, tmp_path, name="cora")
    assert content_hash(tmp_path / "cora.npz") == first


Change = Callable[[bytes], bytes]


@pytest.mark.parametrize(
    ("content", "match"),
    [
        (pickle.dumps(os.system, 2), "names .*system, which no file of Planetoid does, and nothing of it is run"),
        (b"", "bytes? (of|are|is)|announced"),
        (Python2(2).dumps(np.arange(6))[:-30], "announced|instruction|takes"),
        (Python2(0).dumps({0: [1]})[:-4] + b"I1e9\nas.", "a number that is none"),
        (b"S'abc\n.", "a text that is none"),
        (b"(lp99999999999999999999999999999999999999\n.", "a number that is none"),
        (b"\x8e", "instruction 0x8e, which these files do not have"),
        (Python2(2).dumps(np.array(["a", "b"])), "something that is no number|dtype"),
    ],
)  # fmt: skip
def test_pickles_that_are_none_of_planetoid(tmp_path: Path, content: bytes, match: str) -> None:
    (tmp_path / "ind.cora.ally").write_bytes(content)
    with pytest.raises(DataFault, match=match):
        read_pickle(tmp_path / "ind.cora.ally")


def test_parts_that_do_not_fit(tmp_path: Path) -> None:
    paths, _, _ = write_planetoid(tmp_path, 2)
    paths["ind.cora.test.index"].write_text("12\n13\n")
    with pytest.raises(DataFault, match=r"do not fit each other"):
        originals.planetoid(paths, tmp_path, name="cora")
    paths["ind.cora.test.index"].write_text("12\n12\n14\n13\n")
    with pytest.raises(DataFault, match=r"a node twice"):
        originals.planetoid(paths, tmp_path, name="cora")


# -- MATLAB ------------------------------------------------------------------------------------------------------------
def element(kind: int, data: bytes) -> bytes:
    return struct.pack("<II", kind, len(data)) + data + bytes(-len(data) % 8)


def mat(name: str, dense: np.ndarray, *, packed: bool) -> bytes:
    """A file with one sparse matrix, as MATLAB writes it."""
    columns, rows = np.nonzero(dense.T)
    starts = np.searchsorted(columns, np.arange(dense.shape[1] + 1))
    small = name.encode()
    named = struct.pack("<HH", 1, len(small)) + small.ljust(4, b"\0") if len(small) <= 4 else element(1, small)
    body = element(6, struct.pack("<II", 5, len(rows))) + element(5, struct.pack("<ii", *dense.shape)) + named
    body += element(5, rows.astype("<i4").tobytes()) + element(5, starts.astype("<i4").tobytes())
    body += element(9, dense.T[columns, rows].astype("<f8").tobytes())
    whole = element(14, body)
    if packed:
        squeezed = zlib.compress(whole)
        whole = struct.pack("<II", 15, len(squeezed)) + squeezed
    return b"MATLAB 5.0 MAT-file".ljust(124) + struct.pack("<H", 0x0100) + b"IM" + whole


NET = np.zeros((5, 5))
NET[[0, 1, 1, 3, 4, 4], [1, 0, 3, 1, 4, 3]] = 1


@pytest.mark.parametrize("packed", [False, True])
def test_seal(tmp_path: Path, packed: bool) -> None:
    names = ("USAir", "NS", "Yeast", "Celegans")
    paths = {f"{name}.mat": tmp_path / f"{name}.mat" for name in names}
    for path in paths.values():
        path.write_bytes(mat("net", NET, packed=packed))
    originals.seal(paths, tmp_path)
    with np.load(tmp_path / "linkpred_seal4.npz") as held:
        assert held["NS"].tolist() == [[0, 1], [1, 3], [3, 4]]
    assert LinkGraph("Yeast", path=tmp_path / "linkpred_seal4.npz").graph.num_nodes == 5
    paths["NS.mat"].write_bytes(mat("else", NET, packed=packed))
    with pytest.raises(DataFault, match=r"no sparse matrix net, only else"):
        originals.seal(paths, tmp_path)


def test_matrices_as_scipy_writes_them(tmp_path: Path) -> None:
    scipy = pytest.importorskip("scipy.io")
    sparse = pytest.importorskip("scipy.sparse")
    file = tmp_path / "net.mat"
    scipy.savemat(file, {"text": "words", "net": sparse.csc_matrix(NET), "n": 3.0}, do_compression=True)
    rows, columns, shape = read_sparse(file)["net"]
    assert shape == (5, 5)
    assert sorted(zip(rows, columns, strict=True)) == sorted(zip(*np.nonzero(NET), strict=True))


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d[:60],
        lambda d: d[:-20],
        lambda d: d[:126] + b"??" + d[128:],
        lambda d: d[:132] + b"\xff" * 4 + d[136:],
    ],
)
def test_damaged_matrices(tmp_path: Path, change: Change) -> None:
    file = tmp_path / "net.mat"
    file.write_bytes(change(mat("net", NET, packed=False)))
    with pytest.raises(DataFault, match=r"damaged or cut off|no MATLAB file"):
        read_sparse(file)


# -- text --------------------------------------------------------------------------------------------------------------
def test_astroph(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    source = tmp_path / "in" / "ca-AstroPh.txt.gz"
    source.write_bytes(gzip.compress(b"# Directed\r\n# From\tTo\r\n84424\t276\r\n276\t84424\r\n7\t7\r\n7\t276\r\n"))
    originals.astroph({source.name: source}, tmp_path)
    made = tmp_path / "ca-AstroPh.txt.gz"
    assert gzip.decompress(made.read_bytes()) == b"7\t7\n7\t276\n276\t84424\n"
    assert CaAstroPh(made).graph.num_nodes == CaAstroPh(source).graph.num_nodes == 3
    assert CaAstroPh(made).graph.num_edges == CaAstroPh(source).graph.num_edges


def test_blogcatalog(tmp_path: Path) -> None:
    tables = {"nodes.csv": "1\r\n2\r\n3", "edges.csv": "1,2\r\n2,3\r\n", "groups.csv": "1\r\n2\r\n",
              "group-edges.csv": "1,1\r\n2,2\r\n3,1\r\n"}  # fmt: skip
    path = tmp_path / "BlogCatalog-dataset.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in tables.items():
            archive.writestr(f"BlogCatalog-dataset/data/{name}", text)
        archive.writestr("BlogCatalog-dataset/readme.txt", "words")
    (tmp_path / "made").mkdir()
    originals.blogcatalog({path.name: path}, tmp_path / "made")
    assert (tmp_path / "made/nodes.csv").read_bytes() == b"1\n2\n3\n"
    assert BlogCatalog(path=tmp_path / "made").graph.num_nodes == 3
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("BlogCatalog-dataset/data/nodes.csv", "1")
    with pytest.raises(DataFault, match=r"expected one file data/edges\.csv"):
        originals.blogcatalog({path.name: path}, tmp_path / "made")


def test_tables_have_line_ends_of_one_kind(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for ends in ("\n", "\r\n"):
        (tmp_path / "in/a.csv").write_bytes(f"\ufeffx,y{ends}1,2{ends}{ends}".encode())
        originals.table({"a.csv": tmp_path / "in/a.csv"}, tmp_path)
        assert (tmp_path / "a.csv").read_bytes() == b"x,y\n1,2\n"


# -- the data that the results were measured on ------------------------------------------------------------------------
KINDS = {"x_data": np.float32, "x_indices": np.int32, "x_indptr": np.int32}


@pytest.mark.slow
@pytest.mark.skipif("PDL_TEST_DATA" not in os.environ, reason="PDL_TEST_DATA names no folder of real data")
def test_hashes_are_those_of_the_data_that_was_measured(tmp_path: Path) -> None:
    at = Path(os.environ["PDL_TEST_DATA"])
    for name in ("cora", "citeseer", "pubmed"):
        with np.load(at / f"graph/{name}.npz") as held:
            arrays = {key: held[key].astype(KINDS.get(key, np.int64)) for key in held.files}
        originals.write_npz(tmp_path / f"{name}.npz", arrays)
        assert public_set(name).made[f"{name}.npz"] == content_hash(tmp_path / f"{name}.npz")
    with np.load(at / "graph/linkpred_seal4.npz") as held:
        pairs = {key: np.unique(held[key], axis=0) for key in ("USAir", "NS", "Yeast", "Celegans")}
    originals.write_npz(tmp_path / "linkpred_seal4.npz", pairs)
    assert content_hash(tmp_path / "linkpred_seal4.npz") in public_set("seal").made.values()
    originals.astroph({"ca-AstroPh.txt.gz": at / "graph/ca-AstroPh.txt.gz"}, tmp_path)
    assert content_hash(tmp_path / "ca-AstroPh.txt.gz") in public_set("ca_astroph").made.values()
    for name in ("FB15k-237", "WN18RR"):
        known = public_set(name.replace("-", "").lower()).made[f"{name}.tar.gz"]
        assert known == content_hash(at / f"graph/{name}.tar.gz")
    for name in ("SAMPL.csv", "Lipophilicity.csv"):
        originals.table({name: at / "chem" / name}, tmp_path)
        assert content_hash(tmp_path / name) in {*public_set("freesolv").made.values(),
                                                 *public_set("lipophilicity").made.values()}  # fmt: skip
    with zipfile.ZipFile(at / "graph/blogcatalog.zip") as archive, zipfile.ZipFile(tmp_path / "b.zip", "w") as made:
        for name in FILES:
            made.writestr(f"x/data/{name}", archive.read(f"BlogCatalog/{name}"))
    originals.blogcatalog({"b.zip": tmp_path / "b.zip"}, tmp_path)
    assert all(content_hash(tmp_path / name) == known for name, known in public_set("blogcatalog").made.items())
