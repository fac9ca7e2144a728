"""Sparse matrices out of MATLAB's files (version 5, "MAT-File Format", The MathWorks), as networks are published in
them. Numbers only: no object, function or text of such a file is looked at.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from pdl.data.faults import fault, unreadable

MAX_BYTES = 1 << 30
_HEADER, _COMPRESSED, _MATRIX, _SPARSE = 128, 15, 14, 5
_TYPES = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_AGAIN = "get it again from its source"

Pairs = tuple[np.ndarray, np.ndarray, tuple[int, int]]


def read_sparse(path: Path) -> dict[str, Pairs]:
    """The sparse matrices of a file by name: rows and columns (from 0 on) of what is not zero, and the shape. DataFault
    for a damaged file."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise unreadable(path, error) from error
    mark = data[126:128]
    if len(data) < _HEADER or mark not in (b"IM", b"MI"):
        raise fault(path, "is no MATLAB file of version 5", _AGAIN)
    order = "<" if mark == b"IM" else ">"
    try:
        found = [_matrix(body, order) for body in _matrices(data[_HEADER:], order)]
    except (struct.error, zlib.error, ValueError, IndexError) as error:
        raise fault(path, f"is damaged or cut off: {error}", _AGAIN) from error
    return dict(each for each in found if each is not None)


def _matrices(data: bytes, order: str) -> Iterator[bytes]:
    for kind, body in _elements(data, order):
        if kind == _COMPRESSED:
            unpacker = zlib.decompressobj()
            plain = unpacker.decompress(body, MAX_BYTES)
            if unpacker.unconsumed_tail:
                raise ValueError(f"more than {MAX_BYTES} bytes unpacked")
            yield from (inner for sort, inner in _elements(plain, order) if sort == _MATRIX)
        elif kind == _MATRIX:
            yield body


def _elements(data: bytes, order: str) -> Iterator[tuple[int, bytes]]:
    """(type, content) of the elements that stand one after the other."""
    at = 0
    while at + 8 <= len(data):
        kind, size = struct.unpack_from(f"{order}II", data, at)
        if kind >> 16:  # a small element: type and size share four bytes
            kind, size, begin = kind & 0xFFFF, kind >> 16, at + 4
            after = at + 8
        else:
            begin = at + 8
            after = begin + size + (0 if kind == _COMPRESSED else -size % 8)
        if size > len(data) - begin:
            raise ValueError(f"{size} bytes are announced, {len(data) - begin} are left")
        yield kind, data[begin : begin + size]
        at = after


def _matrix(body: bytes, order: str) -> tuple[str, Pairs] | None:
    """The name and the content of a sparse matrix; None for any other array."""
    parts = list(_elements(body, order))
    if len(parts) < 6 or np.frombuffer(parts[0][1], f"{order}u4")[0] & 0xFF != _SPARSE:
        return None
    shape = _numbers(parts[1], order)
    name = parts[2][1].decode("ascii", "replace")
    rows, starts = _numbers(parts[3], order), _numbers(parts[4], order)
    if len(shape) != 2 or len(starts) != shape[1] + 1 or starts[0] != 0 or (np.diff(starts) < 0).any():
        raise ValueError(f"{name}: no sparse matrix")
    rows = rows[: starts[-1]]
    if len(rows) < starts[-1] or (len(rows) and not 0 <= rows.min() <= rows.max() < shape[0]):
        raise ValueError(f"{name}: rows outside of the matrix")
    columns = np.repeat(np.arange(shape[1]), np.diff(starts))
    return name, (rows, columns, (int(shape[0]), int(shape[1])))


def _numbers(element: tuple[int, bytes], order: str) -> np.ndarray:
    kind, data = element
    if kind not in _TYPES:
        raise ValueError(f"numbers of type {kind}")
    return np.frombuffer(data, f"{order}{_TYPES[kind]}").astype(np.int64)
