"""What `pdl data get` makes of the original files: the files that the data sets of this package read.

A function takes the originals by name and the folder to write to. What it writes depends on the content alone, so that
its hash says whether the data is what the results were measured on.
"""

from __future__ import annotations

import gzip
import io
import zipfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

import numpy as np

from pdl.data.faults import fault, unreadable
from pdl_graph.data.blogcatalog import FILES
from pdl_graph.data.edge_text import read_edge_text
from pdl_graph.data.mat_file import read_sparse
from pdl_graph.data.planetoid_file import Sparse, read_pickle

Originals = Mapping[str, Path]
MAX_MEMBER = 1 << 28  # bytes of a table inside an archive
VAL = 500  # nodes of Planetoid's public split
_AGAIN = "get it again from its source"


def planetoid(originals: Originals, out: Path, *, name: str) -> None:
    """NAME.npz for `pdl_graph.data.Planetoid` of ind.NAME.{x,y,tx,ty,allx,ally,graph,test.index}, as Kipf and Welling
    put the parts together (arXiv 1609.02907, `load_data` of their code).

    Test nodes stand in the order of test.index; those of Citeseer that have neither words nor a field stand between
    them. The label of a node without a field is -1.
    """
    held = {part: originals[f"ind.{name}.{part}"] for part in ("y", "tx", "ty", "allx", "ally", "graph")}
    y, ty, ally = (_array(held[part]) for part in ("y", "ty", "ally"))
    tx, allx = (_sparse(held[part]) for part in ("tx", "allx"))
    index = originals[f"ind.{name}.test.index"]
    order = _test_index(index)
    first = allx.shape[0]
    n = max(first, int(order.max(initial=-1)) + 1)
    same = tx.shape[0] == len(ty) == len(order) and first == len(ally) and tx.shape[1] == allx.shape[1]
    if not same or len(y) > first or (len(order) and order.min() < first):
        raise fault(index, "the parts of the data set do not fit each other", _AGAIN)
    rows = np.concatenate([_rows(allx), order[_rows(tx)]])
    indices, data = np.concatenate([allx.indices, tx.indices]), np.concatenate([allx.data, tx.data])
    place = np.lexsort((indices, rows))
    labels = np.full(n, -1, np.int64)
    for nodes, hot in ((np.arange(first), ally), (order, ty)):
        labels[nodes] = np.where(hot.any(1), hot.argmax(1), -1)
    write_npz(
        out / f"{name}.npz",
        {
            "x_data": data[place].astype(np.float32),
            "x_indices": indices[place].astype(np.int32),
            "x_indptr": np.searchsorted(rows[place], np.arange(n + 1)).astype(np.int32),
            "x_shape": np.array([n, allx.shape[1]], np.int64),
            "y": labels,
            "edges": _citations(held["graph"], n),
            "train_idx": np.arange(len(y)),
            "val_idx": np.arange(len(y), min(len(y) + VAL, first)),
            "test_idx": np.sort(order),
        },
    )


def _array(path: Path) -> np.ndarray:
    found = read_pickle(path)
    if not isinstance(found, np.ndarray) or found.ndim != 2:
        raise fault(path, "is no table of labels", _AGAIN)
    return found


def _sparse(path: Path) -> Sparse:
    found = read_pickle(path)
    if not isinstance(found, Sparse):
        raise fault(path, "is no sparse matrix", _AGAIN)
    return found


def _rows(matrix: Sparse) -> np.ndarray:
    """The row of every value."""
    return np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))


def _test_index(path: Path) -> np.ndarray:
    """The nodes of the rows of tx, int64."""
    try:
        found = np.array(path.read_text("ascii").split(), np.int64)
    except (ValueError, OverflowError) as error:
        raise fault(path, f"is no list of nodes: {error}", _AGAIN) from error
    if len(np.unique(found)) < len(found) or len(found) > 1 << 24 or (len(found) and found.max() > 1 << 24):
        raise fault(path, "names a node twice, or too many", _AGAIN)
    return found


def _citations(path: Path, n: int) -> np.ndarray:
    """int64 [E, 2]: each edge once, the lower node first, none to itself."""
    graph = read_pickle(path)
    good = isinstance(graph, dict) and all(
        type(node) is int and isinstance(near, list) and all(type(other) is int for other in near)
        for node, near in graph.items()
    )
    if not good:
        raise fault(path, "is no list of neighbours", _AGAIN)
    source = np.repeat(np.array(list(graph), np.int64), [len(near) for near in graph.values()])
    target = np.array([other for near in graph.values() for other in near], np.int64)
    pairs = _each_once(source, target)
    if len(pairs) and not (pairs.min() >= 0 and pairs.max() < n):
        raise fault(path, f"names node {pairs.max()} of {n}", _AGAIN)
    return pairs


def _each_once(source: np.ndarray, target: np.ndarray, *, loops: bool = False) -> np.ndarray:
    """[E, 2]: pairs in ascending order, each once, the lower node first."""
    pairs = np.unique(np.sort(np.stack([source, target], 1), axis=1), axis=0)
    return pairs if loops else pairs[pairs[:, 0] != pairs[:, 1]]


def seal(originals: Originals, out: Path) -> None:
    """linkpred_seal4.npz for `pdl_graph.data.LinkGraph`: the edges of the matrix `net` of each file, int32 [E, 2]."""
    found = {}
    for name, path in originals.items():
        matrices = read_sparse(path)
        if "net" not in matrices:
            raise fault(path, f"has no sparse matrix net, only {', '.join(matrices) or 'none'}", _AGAIN)
        rows, columns, _ = matrices["net"]
        found[PurePosixPath(name).stem] = _each_once(rows, columns).astype(np.int32)
    write_npz(out / "linkpred_seal4.npz", found)


def astroph(originals: Originals, out: Path) -> None:
    """ca-AstroPh.txt.gz for `pdl_graph.data.CaAstroPh`: each pair of authors once, in ascending order."""
    path = originals["ca-AstroPh.txt.gz"]
    graph = read_edge_text(path, directed=True, weighted=False, repeats="drop", self_loops="keep", num_nodes=None)
    names = np.array(graph.names, np.int64) if len(graph.names) else np.arange(graph.num_nodes)
    source, target = graph.edges()
    pairs = _each_once(names[source], names[target], loops=True)
    with gzip.GzipFile(out / "ca-AstroPh.txt.gz", "wb", mtime=0) as file:
        file.write("".join(f"{a}\t{b}\n" for a, b in pairs.tolist()).encode())


def blogcatalog(originals: Originals, out: Path) -> None:
    """The four tables for `pdl_graph.data.BlogCatalog`, out of the folder data of the archive."""
    (path,) = originals.values()
    try:
        with zipfile.ZipFile(path) as archive:
            for name in FILES:
                inside = [each for each in archive.infolist() if each.filename.endswith(f"data/{name}")]
                if len(inside) != 1 or inside[0].file_size > MAX_MEMBER:
                    raise fault(path, f"expected one file data/{name} of at most {MAX_MEMBER} bytes", _AGAIN)
                _write_lines(out / name, archive.read(inside[0]))
    except zipfile.BadZipFile as error:
        raise fault(path, f"is damaged or cut off: {error}", _AGAIN) from error


def table(originals: Originals, out: Path) -> None:
    """A table as it is, with line ends of one kind."""
    for name, path in originals.items():
        try:
            _write_lines(out / name, path.read_bytes())
        except OSError as error:
            raise unreadable(path, error) from error


def _write_lines(path: Path, data: bytes) -> None:
    lines = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").rstrip(b"\n")
    path.write_bytes(lines + b"\n")


def write_npz(path: Path, arrays: Mapping[str, np.ndarray]) -> None:
    """An .npz file whose bytes depend on the arrays alone: no time, nothing compressed."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            member = zipfile.ZipInfo(f"{name}.npy", (1980, 1, 1, 0, 0, 0))
            member.create_system, member.external_attr = 3, 0o600 << 16
            content = io.BytesIO()
            np.lib.format.write_array(content, np.ascontiguousarray(array), version=(1, 0), allow_pickle=False)
            archive.writestr(member, content.getvalue())
