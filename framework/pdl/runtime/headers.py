"""Checks of the headers of image files before anything is decoded: damage, unreasonable sizes, other formats.

Decoders fill a cut-off JPEG up with gray and say nothing; these checks say it. No decoder is called on a file of a
format that is not among these.
"""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import islice
from threading import local
from typing import TypeAlias

#: names of files that are taken for images
EXTENSIONS = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff", ".pgm", ".ppm")
MAX_PAGES = 1000  # of a TIFF
MAX_PIXELS = 1 << 28  # refuse what unpacks to more than 268 million pixels

Data: TypeAlias = bytes | mmap.mmap
"""The content of a file; of a mapped one little more than its beginning and its end is read."""


_thread = local()


@contextmanager
def at_most(pixels: int) -> Iterator[None]:
    """Inside the block this thread refuses images of more pixels than so many, where `MAX_PIXELS` is not less."""
    before = getattr(_thread, "pixels", MAX_PIXELS)
    _thread.pixels = min(pixels, before)
    try:
        yield
    finally:
        _thread.pixels = before


def trouble(data: Data) -> str | None:
    """Why a file is empty, cut off, too large or of no format that is read, without decoding it; None if it looks
    whole."""
    if not data:
        return "the file is empty (0 bytes)"
    for sign, look in _FORMATS.items():
        if data[: len(sign)] == sign:
            try:
                return look(data)
            except struct.error:
                return f"cut off inside its header ({len(data)} bytes)"
    what = f"{kind(data)}, {len(data)} bytes"
    return f"not an image that can be decoded ({what}): JPEG, PNG, BMP, WebP, TIFF and PNM are read"


def kind(data: Data) -> str:
    """What bytes that do not decode look like."""
    if data[:2] == b"\xff\xd8" or data[:4] == b"\x89PNG":
        return "damaged JPEG or PNG"
    return "text" if all(32 <= b < 127 or b in b"\t\r\n" for b in data[:256]) else "unknown format"


def _size_trouble(width: int, height: int) -> str | None:
    if width == 0 or height == 0:
        return f"the image has no pixels ({width} x {height})"
    pixels, most = abs(width * height), getattr(_thread, "pixels", MAX_PIXELS)
    return f"{width} x {height} pixels, more than the limit of {most}" if pixels > most else None


def _jpeg_trouble(data: Data) -> str | None:
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
            whole = data.rfind(b"\xff\xd9") >= at
            return None if whole else f"the JPEG is cut off: no end marker in its {len(data)} bytes"
        if 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC) and at + 9 <= len(data):
            height, width = struct.unpack_from(">HH", data, at + 5)
            trouble = _size_trouble(width, height) if height else None  # 0: the height follows later (DNL)
            if trouble:
                return trouble
        at += 2 + int(struct.unpack_from(">H", data, at + 2)[0])
    return f"the JPEG is cut off inside its header ({len(data)} bytes)"


def _png_trouble(data: Data) -> str | None:
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


def _bmp_trouble(data: Data) -> str | None:
    """The header before BITMAPINFOHEADER has 16 bits for a side."""
    return _size_trouble(*struct.unpack_from("<ii" if data[14:15] >= b"(" else "<hh", data, 18))


def _webp_trouble(data: Data) -> str | None:
    """Lossy, lossless and extended files (RFC 9649)."""
    if data[8:12] != b"WEBP":
        return f"not an image that can be decoded (RIFF, but not WebP, {len(data)} bytes)"
    if data[12:16] == b"VP8 ":
        width, height = struct.unpack_from("<HH", data, 26)
        return _size_trouble(width & 0x3FFF, height & 0x3FFF)
    bits = int(struct.unpack_from("<Q", data, 21 if data[12:16] == b"VP8L" else 24)[0])
    width, height = (14, 14) if data[12:16] == b"VP8L" else (24, 24)
    return _size_trouble((bits & (1 << width) - 1) + 1, (bits >> width & (1 << height) - 1) + 1)


_PNM = re.compile(rb"P[1-6](?:\s|#[^\n]*\n)+(\d{1,9})(?:\s|#[^\n]*\n)+(\d{1,9})\s")


def _pnm_trouble(data: Data) -> str | None:
    found = _PNM.match(data[:4096])
    return _size_trouble(int(found[1]), int(found[2])) if found else "damaged PNM: no width and height in its header"


def _tiff_trouble(data: Data) -> str | None:
    """The sizes of all pages of a TIFF."""
    for number, (width, height) in enumerate(_tiff_sizes(data)):
        if number == MAX_PAGES:
            return f"a TIFF of more than {MAX_PAGES} pages"
        if trouble := _size_trouble(width, height):
            return trouble
    return None


def _tiff_sizes(data: Data) -> Iterator[tuple[int, int]]:
    """Width and height (tags 256 and 257) of every page (TIFF 6.0, section 2); those of BigTIFF are not read."""
    end = "<" if data[:2] == b"II" else ">"
    at = int(struct.unpack_from(f"{end}I", data, 4)[0])
    while at:
        count = int(struct.unpack_from(f"{end}H", data, at)[0])
        size = {256: 0, 257: 0}
        for entry in range(at + 2, at + 2 + 12 * count, 12):
            tag, type_ = struct.unpack_from(f"{end}HH", data, entry)
            if tag in size:
                size[tag] = int(struct.unpack_from(f"{end}{'H' if type_ == 3 else 'I'}", data, entry + 8)[0])
        yield size[256], size[257]
        at = int(struct.unpack_from(f"{end}I", data, at + 2 + 12 * count)[0])


def tiff_pages(data: Data) -> int:
    """How many pages a TIFF has, at most `MAX_PAGES`; 0 of what is none, or is damaged."""
    if data[:4] not in (b"II*\0", b"MM\0*"):
        return 0
    try:
        return sum(1 for _ in islice(_tiff_sizes(data), MAX_PAGES))
    except struct.error:
        return 0


#: how files begin, and what looks at the rest
_FORMATS: dict[bytes, Callable[[Data], str | None]] = {
    b"\xff\xd8": _jpeg_trouble, b"\x89PNG\r\n\x1a\n": _png_trouble, b"BM": _bmp_trouble, b"RIFF": _webp_trouble,
    b"II*\0": _tiff_trouble, b"MM\0*": _tiff_trouble,
    **{b"P%d" % n: _pnm_trouble for n in range(1, 7)},
}  # fmt: skip
