"""Height and width of an image from its header, as `pdl.data.image.read_image` would give them."""

from __future__ import annotations

import struct
from pathlib import Path

from pdl.data.faults import unreadable
from pdl.data.image import mapped, read_image
from pdl.runtime.headers import Data

_NO_SIZE = (0xC4, 0xC8, 0xCC)
ORIENTATION = 0x0112


def image_size(path: Path) -> tuple[int, int]:
    """(height, width), turned as EXIF data of a JPEG says; formats other than JPEG and PNG are decoded for it.
    DataFault where the file cannot be read."""
    try:
        found = header_size(path)
    except OSError as error:
        raise unreadable(path, error) from error
    return found or read_image(path).shape[:2]  # type: ignore[return-value]


def header_size(path: Path) -> tuple[int, int] | None:
    """The same, without decoding; None where the header does not say it. OSError where the file cannot be read."""
    data = mapped(path)
    if data[:2] == b"\xff\xd8":
        return _jpeg(data)
    if data[:8] == b"\x89PNG\r\n\x1a\n" and data[12:16] == b"IHDR" and b"eXIf" not in data[:4096]:
        width, height = struct.unpack_from(">II", data, 16)
        return height, width
    return None


def _jpeg(data: Data) -> tuple[int, int] | None:
    """The sides in the frame's header (ITU-T T.81, B.2.2)."""
    at, turned = 2, False
    while at + 9 <= len(data) and data[at] == 0xFF:
        marker = data[at + 1]
        if marker == 0xFF or marker == 0x01 or 0xD0 <= marker <= 0xD7:
            at += 1 if marker == 0xFF else 2
            continue
        length = struct.unpack_from(">H", data, at + 2)[0]
        if marker == 0xE1 and data[at + 4 : at + 10] == b"Exif\0\0":
            turned = _turned(data[at + 10 : at + 2 + length])
        if 0xC0 <= marker <= 0xCF and marker not in _NO_SIZE:
            height, width = struct.unpack_from(">HH", data, at + 5)
            return ((width, height) if turned else (height, width)) if height else None
        at += 2 + length
    return None


def _turned(tiff: bytes) -> bool:
    """Whether the orientation in EXIF data (values 5 to 8) exchanges the sides."""
    try:
        end = "<" if tiff[:2] == b"II" else ">"
        at = struct.unpack_from(f"{end}I", tiff, 4)[0]
        for entry in range(struct.unpack_from(f"{end}H", tiff, at)[0]):
            tag, kind, _, value = struct.unpack_from(f"{end}HHIH", tiff, at + 2 + 12 * entry)
            if tag == ORIENTATION and kind == 3:
                return 5 <= value <= 8
    except struct.error:
        pass
    return False
