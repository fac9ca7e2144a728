"""FlatBuffers read without generated code: tables, vectors and texts of a file that is not trusted.

Every offset is compared with the file's length before anything is read there. Offsets point forward, and readers go as
deep as their schema does, so no file makes them turn in circles; what is read in all is bounded as well, since many
offsets may lead to one large vector.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

from pdl.dtype import Array, DType
from pdl.errors import UsageError
from pdl.limits import check_time

#: bytes of vectors and texts that may be read for each byte of a file, and beyond that
TIMES, MORE = 8, 1 << 20


class File:
    """The bytes of a file; `what` names it in messages."""

    def __init__(self, data: bytes, what: str) -> None:
        self.data, self.what = memoryview(data), what
        self._left = TIMES * len(data) + MORE

    def root(self) -> Table:
        """The table that the file holds."""
        return Table(self, self.number("I", 0))

    def number(self, kind: str, at: int) -> Any:
        """The number of a `struct` format at a byte."""
        self.require(at, struct.calcsize(kind))
        return struct.unpack_from("<" + kind, self.data, at)[0]

    def require(self, at: int, nbytes: int) -> None:
        """UsageError unless so many bytes begin at `at`."""
        if at < 0 or at + nbytes > len(self.data):
            raise UsageError(f"{self.what} is damaged: it refers to bytes {at} to {at + nbytes} of {len(self.data)}")

    def vector(self, at: int, width: int) -> tuple[int, int]:
        """Where the elements of the vector at `at` begin, and how many there are, of `width` bytes each."""
        count = self.number("I", at)
        self.require(at + 4, count * width)
        return at + 4, count

    def spend(self, nbytes: int) -> None:
        """Count what is read."""
        check_time()
        self._left -= nbytes
        if self._left < 0:
            raise UsageError(f"{self.what} is damaged: its parts refer to each other's bytes again and again")


class Table:
    """A table of a file: its fields by the number that the schema gives them."""

    __slots__ = ("_at", "_fields", "_file", "_size")

    def __init__(self, file: File, at: int) -> None:
        self._file, self._at = file, at
        self._fields = at - file.number("i", at)
        self._size = file.number("H", self._fields)
        if self._size < 4 or self._size % 2:
            raise UsageError(f"{file.what} is damaged: the table at byte {at} has fields of {self._size} bytes")
        file.require(self._fields, self._size)
        file.spend(self._size)

    def _place(self, field: int) -> int:
        """Where a field lies; 0 where the table lacks it."""
        entry = 4 + 2 * field
        offset = self._file.number("H", self._fields + entry) if entry + 2 <= self._size else 0
        return self._at + offset if offset else 0

    def _target(self, field: int) -> int:
        at = self._place(field)
        return at + self._file.number("I", at) if at else 0

    def number(self, field: int, kind: str, default: Any = 0) -> Any:
        """A number or bool, of a `struct` format."""
        at = self._place(field)
        return self._file.number(kind, at) if at else default

    def table(self, field: int) -> Table | None:
        """A table, or None."""
        at = self._target(field)
        return Table(self._file, at) if at else None

    def tables(self, field: int) -> Iterator[Table]:
        """The tables of a vector."""
        start, count = self._vector(field, 4)
        for at in range(start, start + 4 * count, 4):
            yield Table(self._file, at + self._file.number("I", at))

    def count(self, field: int) -> int:
        """How many entries a vector has at most: offsets of four bytes."""
        return self._vector(field, 4)[1]

    def numbers(self, field: int, dtype: Any) -> list[Any]:
        """The numbers of a vector."""
        kind = np.dtype(dtype)
        start, count = self._vector(field, kind.itemsize)
        self._file.spend(count * kind.itemsize)
        found: list[Any] = np.frombuffer(self._file.data, kind.newbyteorder("<"), count, start).tolist()
        return found

    def raw(self, field: int) -> memoryview | None:
        """The bytes of a vector of bytes, not copied; None where there is none."""
        if not self._place(field):
            return None
        start, count = self._vector(field, 1)
        return self._file.data[start : start + count]

    def text(self, field: int) -> str:
        """A text; "" where there is none."""
        data = self.raw(field) or b""
        self._file.spend(len(data))
        try:
            return str(data, "utf-8")
        except UnicodeDecodeError:
            raise UsageError(f"{self._file.what} is damaged: {bytes(data[:40])!r} is no text") from None

    def _vector(self, field: int, width: int) -> tuple[int, int]:
        at = self._target(field)
        return self._file.vector(at, width) if at else (0, 0)


def elements(data: memoryview, dtype: DType, shape: tuple[int, ...]) -> Array:
    """Little-endian bytes as an array whose elements lie as the machine wants them."""
    found: Array = np.frombuffer(data, dtype.newbyteorder("<") if dtype.kind in "iufc" else dtype).reshape(shape)
    return np.require(found.astype(dtype, copy=False), requirements="A")
