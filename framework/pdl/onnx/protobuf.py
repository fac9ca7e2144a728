"""The fields of protobuf messages, read without generated code; ValueError and IndexError where there are none."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

_SIZES = {1: 8, 5: 4}  # bytes of numbers of a fixed size, by the kind of a field


class Field(NamedTuple):
    """A field: its number, and its value: an integer, or the bytes of a text, of an inner message, of a fixed size."""

    number: int
    value: int | memoryview


def fields(data: memoryview) -> Iterator[Field]:
    """The fields of a message in order."""
    at = 0
    while at < len(data):
        key, at = varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = varint(data, at)
            yield Field(key >> 3, value)
            continue
        length, at = varint(data, at) if kind == 2 else (_SIZES.get(kind, -1), at)
        if length < 0 or at + length > len(data):
            raise ValueError(f"field {key >> 3} of kind {kind} does not fit its message")
        yield Field(key >> 3, data[at : at + length])
        at += length


def varint(data: memoryview, at: int) -> tuple[int, int]:
    """The integer at `at`, and where it ends."""
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        value, at = value | (byte & 127) << shift, at + 1
        if byte < 128:
            return value, at
    raise ValueError("an integer of more than ten bytes")


class Message:
    """A message whose fields are asked for by number; what it lacks is 0, "", []."""

    def __init__(self, data: memoryview | int) -> None:
        if isinstance(data, int):
            raise ValueError("a number where a message belongs")
        self._fields: dict[int, list[int | memoryview]] = {}
        for number, value in fields(data):
            self._fields.setdefault(number, []).append(value)

    def __contains__(self, number: int) -> bool:
        return number in self._fields

    def integers(self, number: int) -> list[int]:
        """Integers, one a field or packed; those of 32 and 64 bits with their sign."""
        found: list[int] = []
        for value in self._fields.get(number, ()):
            if isinstance(value, int):
                found.append(value)
                continue
            at = 0
            while at < len(value):
                one, at = varint(value, at)
                found.append(one)
        return [v - (1 << 64) if v >= 1 << 63 else v for v in found]

    def integer(self, number: int) -> int:
        """An integer; of several the last."""
        return (self.integers(number) or [0])[-1]

    def floats(self, number: int, kind: str = "f") -> list[float]:
        """Floats of a `struct` format, one a field or packed."""
        found: list[float] = []
        for value in self._data(number):
            found += [v[0] for v in struct.iter_unpack(f"<{kind}", value)]
        return found

    def texts(self, number: int) -> list[str]:
        """Texts."""
        return [str(value, "utf-8") for value in self._data(number)]

    def text(self, number: int) -> str:
        """A text; of several the last."""
        return (self.texts(number) or [""])[-1]

    def messages(self, number: int) -> Iterator[Message]:
        """Inner messages."""
        return map(Message, self._fields.get(number, ()))

    def _data(self, number: int) -> list[memoryview]:
        values = self._fields.get(number, [])
        made = [v for v in values if not isinstance(v, int)]
        if len(made) < len(values):
            raise ValueError(f"field {number} is a number")
        return made
