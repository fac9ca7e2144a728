"""Edges out of text with two numbers a line (SNAP's form, and Pajek-like lists), read in pieces."""

from __future__ import annotations

import gzip
import re
import warnings
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any, Literal

import numpy as np

from pdl.data.faults import DataFault, fault, unreadable
from pdl.files import open_file, unpacked
from pdl_graph.graph import Graph
from pdl_graph.structure import by_key

MOST_LINE = 64 << 20
BLOCK = 4 << 20  # bytes of text that are read at once
STEP = 1 << 20  # edges that are changed at once
LOW = 2**31 - 1  # the largest id, and the bits of the source in a packed edge
Repeats = Literal["drop", "keep"]
_COMMENT = re.compile(rb"^[ \t]*[#%][^\n]*\n", re.M)
_EMPTY = re.compile(rb"^[ \t\r]*\n", re.M)
_SPACE, _NEWLINE, _OTHER = 1, 2, 3
_KIND = np.full(256, _OTHER, np.uint8)
_KIND[list(b"0123456789")] = 0
_KIND[list(b" \t\r,;")] = _SPACE
_KIND[ord("\n")] = _NEWLINE
_NUMBER = _KIND.copy()
_NUMBER[list(b"+-.eE")] = 0


def read_edge_text(
    path: Path, *, directed: bool, weighted: bool = False, repeats: Repeats = "drop", self_loops: Repeats = "keep",
    num_nodes: int | None = None,
) -> Graph:  # fmt: skip
    """The graph of a file of lines `source target`, or `source target weight`; see `pdl_graph.data.EdgeFile`.

    Without weights the peak is some 14 bytes for each edge of the result (each direction of an undirected graph), of
    which 4 stay.
    """
    columns = 3 if weighted else 2
    edges, weights = _Growing(np.int64), _Growing(np.float32)
    for block, line in _blocks(path):
        numbers = _numbers(path, block, line, columns)
        edges.append(_packed(path, block, line, numbers[:, 0], numbers[:, 1]))
        if weighted:
            weights.append(numbers[:, 2].astype(np.float32))
    key, weight = edges.done(), weights.done()
    if not len(key):
        raise fault(path, "has no edges", "give a line `source target` for each edge")
    names, n = _renumber(path, key, num_nodes)
    if weighted:
        graph = Graph.from_edges(key & LOW, key >> 32, n, directed=directed, edge_weight=weight, names=names)
        graph = graph.coalesce("first") if repeats == "drop" else graph
        return graph.without_self_loops() if self_loops == "drop" else graph
    if not directed:
        key = _both(key)
    key.sort()
    key = _kept(key, repeats=repeats == "keep", loops=self_loops == "keep")
    indptr, indices = by_key(key, n)
    return Graph(indptr, indices, directed=directed, names=names)


# -- text --------------------------------------------------------------------------------------------------------------
def _blocks(path: Path) -> Iterator[tuple[bytes, int]]:
    """(whole lines without comments, the number of the first line before comments went) piece by piece."""
    line, rest = 1, b""
    try:
        with open_file(path) as held, unpacked(held, path) as file:
            while piece := file.read(BLOCK):
                whole, newline, rest = (rest + piece).rpartition(b"\n")
                if newline:
                    yield whole + newline, line
                    line += whole.count(b"\n") + 1
                elif len(rest) > MOST_LINE:
                    raise fault(path, f"a line of more than {MOST_LINE} bytes", "is this a list of edges?", line=line)
            if rest.strip():
                yield rest + b"\n", line
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise fault(path, f"is damaged or cut off: {error}", "get it again from its source") from error
    except OSError as error:
        if error.errno is None:  # bzip2 says so what it cannot unpack
            raise fault(path, f"is damaged, or not packed: {error}", "get it again from its source") from error
        raise unreadable(path, error) from error


def _numbers(path: Path, block: bytes, line: int, columns: int) -> np.ndarray:
    """[lines, columns]: int64, or float64 with weights; DataFault with the first line that is not so many numbers."""
    text = block
    if b"#" in text or b"%" in text:
        text = _COMMENT.sub(b"", text)
    kinds = _KIND if columns == 2 else _NUMBER
    if not _regular(text, kinds, columns):
        text = _EMPTY.sub(b"", text)
        if not _regular(text, kinds, columns):
            raise _bad_line(path, block, line, columns)
    text = text.replace(b",", b" ").replace(b";", b" ")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)  # NumPy before 2.3 only warns of text that is no number
            found = np.fromstring(text, np.int64 if columns == 2 else np.float64, sep=" ").reshape(-1, columns)
    except (ValueError, DeprecationWarning):
        raise _bad_line(path, block, line, columns) from None
    if columns == 3 and (found[:, :2] % 1 != 0).any():
        raise _bad_line(path, block, line, columns)
    return found


def _regular(text: bytes, kinds: np.ndarray, columns: int) -> bool:
    """Whether every line has so many words of the right letters."""
    kind = kinds[np.frombuffer(text, np.uint8)]
    if not kind.size:
        return True
    if int(kind.max()) == _OTHER:
        return False
    word = kind == 0
    starts = np.flatnonzero(word & ~np.append(False, word[:-1]))
    ends = np.flatnonzero(kind == _NEWLINE)
    if len(starts) != columns * len(ends):
        return False
    return bool((starts[columns - 1 :: columns] < ends).all()) and bool((starts[columns::columns] > ends[:-1]).all())


def _bad_line(path: Path, block: bytes, first: int, columns: int) -> DataFault:
    """The number of the faulty line, and its fault."""
    shape = "source target" if columns == 2 else "source target weight"
    for number, raw in enumerate(block.split(b"\n"), first):
        words = re.split(r"[ \t\r,;]+", raw.decode("utf-8", "replace").strip())
        if words == [""] or words[0][:1] in ("#", "%"):
            continue
        shown = raw.decode("utf-8", "replace").strip()[:60]
        if len(words) != columns:
            more = ", or say weighted=True" if (columns, len(words)) == (2, 3) else ""
            what = f"{shown!r} has {len(words)} columns, not {columns}"
            return fault(path, what, f"write {shape}{more}", line=number)
        for place, word in enumerate(words):
            good = re.fullmatch(r"[0-9]+" if place < 2 else r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?", word)
            if good is None:
                advice = "write whole numbers from 0 on (# before a header), or use GraphFolder, which takes names"
                return fault(path, f"{word[:40]!r} in {shown!r} is no {'id' if place < 2 else 'weight'}",
                             advice if place < 2 else "write a number", line=number)  # fmt: skip
    return fault(path, "cannot be read as numbers", f"write lines `{shape}`", line=first)


def _packed(path: Path, block: bytes, line: int, source: np.ndarray, target: np.ndarray) -> np.ndarray:
    """target << 32 | source, int64."""
    bad = np.flatnonzero((source > LOW) | (target > LOW))
    if len(bad):
        rows = ((number, words) for number, each in enumerate(block.split(b"\n"), line)
                if (words := each.strip()) and words[:1] not in b"#%")  # fmt: skip
        number, words = next(islice(rows, int(bad[0]), None))
        what = f"an id in {words.decode()[:60]!r} is beyond {LOW}"
        raise fault(path, what, "number the nodes anew, or use pdl_graph.data.GraphFolder", line=number)
    key = target.astype(np.int64)
    key <<= 32
    key |= source.astype(np.int64)
    return key


# -- edges as target << 32 | source ------------------------------------------------------------------------------------
class _Growing:
    """An array that grows in place: large ones are moved by the system, not copied, and nothing is held twice."""

    def __init__(self, dtype: type) -> None:
        self.held: np.ndarray = np.empty(0, dtype)
        self.end = 0

    def append(self, piece: np.ndarray) -> None:
        end = self.end + len(piece)
        if end > len(self.held):
            self.held.resize(end + (end >> 3), refcheck=False)
        self.held[self.end : end] = piece
        self.end = end

    def done(self) -> np.ndarray:
        self.held.resize(self.end, refcheck=False)
        return self.held


def _pieces(key: np.ndarray) -> Iterator[np.ndarray]:
    """Views, in order."""
    return (key[start : start + STEP] for start in range(0, len(key), STEP))


def _renumber(path: Path, key: np.ndarray, num_nodes: int | None) -> tuple[Any, int]:
    """(the ids of the file by node, or () where they are the numbers; N); `key` is changed to the numbers."""
    largest = max(int(max((piece >> 32).max(), (piece & LOW).max())) for piece in _pieces(key))
    if num_nodes is not None:
        if largest >= num_nodes:
            what = f"names node {largest}, but num_nodes is {num_nodes}: nodes are 0 to {num_nodes - 1}"
            raise fault(path, what, "raise num_nodes, or leave it out")
        return (), num_nodes
    if largest > 8 * len(key) + STEP:
        return _few(key)
    there = np.zeros(largest + 1, bool)
    for piece in _pieces(key):
        there[piece >> 32] = True
        there[piece & LOW] = True
    names = np.flatnonzero(there)
    if len(names) == largest + 1:
        return (), len(names)
    number = np.cumsum(there, dtype=np.int32)
    number -= 1
    for piece in _pieces(key):
        source = number[piece & LOW]
        piece >>= 32
        piece[:] = number[piece]
        piece <<= 32
        piece |= source
    return names, len(names)


def _few(key: np.ndarray) -> tuple[np.ndarray, int]:
    """The same where ids are far apart: they are sorted, so that no table has a place for each number."""
    names = np.empty(0, np.int64)
    for piece in _pieces(key):
        names = np.union1d(names, np.concatenate([piece >> 32, piece & LOW]))
    for piece in _pieces(key):
        piece[:] = np.searchsorted(names, piece >> 32) << 32 | np.searchsorted(names, piece & LOW)
    return names, len(names)


def _both(key: np.ndarray) -> np.ndarray:
    """With the other direction of every edge but self-loops, in the array's own memory."""
    once = end = len(key)
    key.resize(2 * once, refcheck=False)
    for piece in _pieces(key[:once]):
        back = (piece >> 32) | ((piece & LOW) << 32)
        back = back[back != piece]
        key[end : end + len(back)] = back
        end += len(back)
    return key[:end]


def _kept(key: np.ndarray, *, repeats: bool, loops: bool) -> np.ndarray:
    """A sorted array without repeats, or without self-loops, in its own memory."""
    if repeats and loops:
        return key
    end, last = 0, -1
    for piece in _pieces(key):
        keep = np.ones(len(piece), bool)
        if not repeats:
            keep[0] = piece[0] != last
            keep[1:] = np.diff(piece) != 0
            last = int(piece[-1])
        if not loops:
            keep &= (piece >> 32) != (piece & LOW)
        count = int(keep.sum())
        key[end : end + count] = piece[keep]
        end += count
    return key[:end]
