"""Pictures whose pixels are classes: the numbers in a PNG, and which class each number is."""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from pdl.data.faults import fault, unreadable
from pdl.data.transforms.annotations import IGNORED
from pdl.errors import ConfigError
from pdl.files import read_bytes
from pdl.runtime import headers

MOST_CLASSES = 255
Value = int | str
"""A number, a colour "#804000", or "rest": every other one."""
Values = Mapping[str, Value | Sequence[Value]]
REST = "rest"

_MOST_BYTES = 1 << 28
_PNG = b"\x89PNG\r\n\x1a\n"
_INDEXED, _GRAY = 3, 0
_OF_PALETTES = (b"PLTE", b"tRNS", b"bKGD", b"hIST", b"sBIT")


def index_map(path: str | Path) -> np.ndarray:
    """The numbers int32 [H, W] in a picture: of one with a palette the indices, of a gray one its values, of 8 or 16
    bits, of another 65536 R + 256 G + B. DataFault for what is no such picture."""
    import cv2

    try:
        data = read_bytes(path, _MOST_BYTES)
    except OSError as error:
        raise unreadable(path, error) from error
    trouble = headers.trouble(data)
    if trouble is None:
        data, levels = _as_gray(data)
    found = None if trouble else cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    if found is None or found.dtype not in (np.uint8, np.uint16):
        raise fault(path, trouble or "not a mask of 8 or 16 bits", "write masks as PNG")
    if found.ndim == 3:
        blue, green, red = (found[..., channel].astype(np.int32) for channel in range(3))
        alike = bool((blue == green).all() and (green == red).all())
        return blue if alike else red << 16 | green << 8 | blue
    return found.astype(np.int32) // (255 // levels if levels < 255 else 1)


def _as_gray(data: bytes) -> tuple[bytes, int]:
    """A PNG with a palette as one whose gray values are the indices, and the highest index of its bits: decoders give
    colours, and two indices may have one colour. Other files as they are."""
    if data[:8] != _PNG or len(data) < 33 or data[25] != _INDEXED:
        return data, 255
    chunks, at = [_PNG], 8
    while at + 12 <= len(data):
        (size,) = struct.unpack(">I", data[at : at + 4])
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + size]
        if kind == b"IHDR":
            body = body[:9] + bytes([_GRAY]) + body[10:]
        if kind not in _OF_PALETTES:
            chunks += [struct.pack(">I", len(body)), kind, body, struct.pack(">I", zlib.crc32(kind + body))]
        at += size + 12
    return b"".join(chunks), (1 << data[24]) - 1


class ClassValues:
    """Which class each number in a mask is.

    values  of each class by its name: a number, a colour ("#804000"), several of them, or "rest", every number that
            nobody names
    ignore  what counts nothing, written alike

    ConfigError for a value that two classes have, and for what is no value.
    """

    def __init__(self, values: Values, ignore: Sequence[Value] = (IGNORED,)) -> None:
        self.names = [str(name) for name in values]
        if not 1 < len(self.names) <= MOST_CLASSES:
            raise ConfigError(f"masks have {len(self.names)} classes; between 2 and {MOST_CLASSES} are possible")
        self.known: dict[int, int] = {}
        self.rest: int | None = None
        self._named: dict[int, str] = {}
        for number, (name, given) in enumerate(values.items()):
            for value in [given] if isinstance(given, int | str) else given:
                self._add(value, number, str(name))
        for value in ignore:
            if value != IGNORED or IGNORED not in self.known:  # a class may have this value
                self._add(value, IGNORED, "ignore")

    def _add(self, value: Value, number: int, name: str) -> None:
        if value == REST:
            if self.rest is not None:
                raise ConfigError(f"values: {name!r} is the second class with the value {REST!r}")
            self.rest = number
            return
        key = plain(value)
        if key in self.known:
            raise ConfigError(f"values: {value!r} is {self._named[key]!r} and {name!r}; a value has one class")
        self.known[key], self._named[key] = number, name

    def classes(self, numbers: np.ndarray, path: str) -> np.ndarray:
        """uint8 [H, W]: the class of each pixel, `IGNORED` where it counts nothing. DataFault for a number that has no
        class."""
        highest = int(numbers.max(initial=0))
        if highest < 1 << 16:
            table = np.full(highest + 1, -1 if self.rest is None else self.rest, np.int16)
            for value, number in self.known.items():
                if value <= highest:
                    table[value] = number
            found = table[numbers]
        else:
            present, places = np.unique(numbers, return_inverse=True)
            each = [self.known.get(int(v), -1 if self.rest is None else self.rest) for v in present]
            found = np.array(each, np.int16)[places].reshape(numbers.shape)
        wrong = np.argwhere(found < 0)
        if len(wrong):
            y, x = wrong[0].tolist()
            value = int(numbers[y, x])
            said = f"{value}" if value < 1 << 16 else f'"#{value:06x}"'
            raise fault(
                path,
                f"the value {said} at ({x}, {y}), of {len(wrong):,} pixels, is no class",
                f"correct the mask, name the value (values=), or let it count nothing: ignore=[{said}]",
            )
        return found.astype(np.uint8)


def plain(value: Value) -> int:
    """A number, or a colour "#rrggbb" as 65536 R + 256 G + B."""
    if isinstance(value, str) and re.fullmatch(r"#[0-9a-fA-F]{6}", value):
        packed = int(value[1:], 16)
        red, green, blue = packed >> 16, packed >> 8 & 255, packed & 255
        return blue if red == green == blue else packed  # as `index_map` reads gray colours
    if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 24:
        return value
    raise ConfigError(f'values: {value!r} is no number from 0, no colour such as "#804000", and not {REST!r}')
