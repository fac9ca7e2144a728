"""Checks of the headers of image files before anything is decoded: damage, and unreasonable sizes.

Decoders fill a cut-off JPEG up with gray and say nothing; these checks say it.
"""

from __future__ import annotations

import struct

#: names of files that are taken for images
EXTENSIONS = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff", ".pgm", ".ppm")
MAX_PIXELS = 1 << 28  # refuse what unpacks to more than 268 million pixels


def trouble(data: bytes) -> str | None:
    """Why a file is empty, cut off or too large, without decoding it; None if it looks whole."""
    if not data:
        return "the file is empty (0 bytes)"
    if data.startswith(b"\xff\xd8"):
        return _jpeg_trouble(data)
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return _png_trouble(data)
    if data.startswith(b"BM") and len(data) >= 26 and data[14] >= 40:  # BITMAPINFOHEADER or later
        return _size_trouble(*struct.unpack_from("<ii", data, 18))
    return None


def kind(data: bytes) -> str:
    """What bytes that do not decode look like."""
    if data.startswith((b"\xff\xd8", b"\x89PNG")):
        return "damaged JPEG or PNG"
    return "text" if all(32 <= b < 127 or b in b"\t\r\n" for b in data[:256]) else "unknown format"


def _size_trouble(width: int, height: int) -> str | None:
    if width == 0 or height == 0:
        return f"the image has no pixels ({width} x {height})"
    pixels = abs(width * height)
    return f"{width} x {height} pixels, more than the limit of {MAX_PIXELS}" if pixels > MAX_PIXELS else None


def _jpeg_trouble(data: bytes) -> str | None:
    """Walk the segments up to the scan (ITU-T T.81, annex B); after it FF D9 can only be the end of the image."""
    at = 2
    while at + 4 <= len(data):
        if data[at] != 0xFF:
            return f"damaged JPEG: no marker at byte {at}"
        marker = data[at + 1]
        if marker == 0xFF or marker == 0x01 or 0xD0 <= marker <= 0xD7:  # fill bytes and markers without a length
            at += 1 if marker == 0xFF else 2
            continue
        if marker == 0xDA:
            whole = data.find(b"\xff\xd9", at) >= 0
            return None if whole else f"the JPEG is cut off: no end marker in its {len(data)} bytes"
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC) and at + 9 <= len(data):
            height, width = struct.unpack_from(">HH", data, at + 5)
            trouble = _size_trouble(width, height) if height else None  # 0: the height follows later (DNL)
            if trouble:
                return trouble
        at += 2 + int(struct.unpack_from(">H", data, at + 2)[0])
    return f"the JPEG is cut off inside its header ({len(data)} bytes)"


def _png_trouble(data: bytes) -> str | None:
    """Walk the chunks to IEND (PNG specification, section 5)."""
    at = 8
    while at + 12 <= len(data):
        length, kind = struct.unpack_from(">I4s", data, at)
        if kind == b"IEND":
            return None
        if kind == b"IHDR" and at + 16 <= len(data):
            trouble = _size_trouble(*struct.unpack_from(">II", data, at + 8))
            if trouble:
                return trouble
        at += 12 + length
    return f"the PNG is cut off: no IEND chunk in its {len(data)} bytes"
