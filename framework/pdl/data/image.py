"""Read pictures: bytes to uint8 [H, W, C], RGB or gray, with damaged files reported instead of half decoded."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Literal

import cv2
import numpy as np

from pdl.data.faults import DataFault, fault, unreadable
from pdl.errors import ConfigError

Mode = Literal["rgb", "gray"]
EXTENSIONS = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff", ".pgm", ".ppm")
MAX_PIXELS = 1 << 28  # refuse what unpacks to more than 268 million pixels
MAX_BYTES = 1 << 30
REPAIR = "replace or remove the file, or set on_error='skip' to leave such samples out"


def check_mode(owner: str, mode: str) -> Mode:
    """`mode` itself; raises ConfigError unless it is 'rgb' or 'gray'."""
    if mode not in ("rgb", "gray"):
        raise ConfigError(f"{owner}: mode={mode!r} must be 'rgb' or 'gray'")
    return mode  # type: ignore[return-value]


def read_image(path: str | Path, *, mode: Mode = "rgb", index: int | None = None) -> np.ndarray:
    """The picture in a file: uint8 [H, W, 3] RGB, or [H, W, 1] gray; turned upright as EXIF says. Raises DataFault."""
    try:
        size = Path(path).stat().st_size
        if size > MAX_BYTES:
            raise fault(path, f"{size} bytes, more than the limit of {MAX_BYTES}", REPAIR, index=index)
        data = Path(path).read_bytes()
    except OSError as error:
        raise unreadable(path, error, index=index) from error
    return decode_image(data, mode=mode, path=path, index=index)


def decode_image(data: bytes, *, mode: Mode = "rgb", path: str | Path | None = None,
                 index: int | None = None) -> np.ndarray:
    """The picture in the bytes of a file (what OpenCV reads: JPEG, PNG, BMP, WebP, TIFF, PNM, ...).

    Alpha is dropped, 16 bits become 8, gray becomes RGB by repetition, RGB becomes gray by ITU-R BT.601. Raises
    DataFault for empty, cut off, foreign or oversized files; a cut-off JPEG, which decoders fill up with gray, too.
    """
    trouble = _trouble(data)
    if trouble:
        raise fault(path, trouble, REPAIR, index=index)
    try:
        flag = cv2.IMREAD_GRAYSCALE if mode == "gray" else cv2.IMREAD_COLOR
        image = cv2.imdecode(np.frombuffer(data, np.uint8), flag)
    except cv2.error as error:
        raise fault(path, f"cannot be decoded: {error.err or error}", REPAIR, index=index) from error
    if image is None:
        raise fault(path, f"not a picture that can be decoded ({_kind(data)}, {len(data)} bytes)", REPAIR, index=index)
    return image[:, :, None] if mode == "gray" else cv2.cvtColor(image, cv2.COLOR_BGR2RGB)


def change_mode(images: np.ndarray, mode: Mode) -> np.ndarray:
    """Images [..., 1 or 3] with the channels of `mode`: RGB to gray by ITU-R BT.601, gray to RGB by repeating."""
    want, have = (1 if mode == "gray" else 3), images.shape[-1]
    if want == have:
        return images
    if want == 3:
        return np.repeat(images, 3, axis=-1)
    flat = np.ascontiguousarray(images).reshape(-1, images.shape[-2], 3)
    return cv2.cvtColor(flat, cv2.COLOR_RGB2GRAY).reshape(*images.shape[:-1], 1)


def damaged(data: bytes, path: str | Path | None = None) -> DataFault | None:
    """The fault of a file that is empty, cut off or too large, without decoding it; None if it looks whole."""
    trouble = _trouble(data)
    return fault(path, trouble, REPAIR) if trouble else None


def _trouble(data: bytes) -> str | None:
    if not data:
        return "the file is empty (0 bytes)"
    if data.startswith(b"\xff\xd8"):
        return _jpeg_trouble(data)
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return _png_trouble(data)
    if data.startswith(b"BM") and len(data) >= 26 and data[14] >= 40:  # BITMAPINFOHEADER or later
        return _size_trouble(*struct.unpack_from("<ii", data, 18))
    return None


def _kind(data: bytes) -> str:
    if data.startswith((b"\xff\xd8", b"\x89PNG")):
        return "damaged JPEG or PNG"
    return "text" if all(32 <= b < 127 or b in b"\t\r\n" for b in data[:256]) else "unknown format"


def _size_trouble(width: int, height: int) -> str | None:
    if width == 0 or height == 0:
        return f"the picture has no pixels ({width} x {height})"
    pixels = abs(width * height)
    return f"{width} x {height} pixels, more than the limit of {MAX_PIXELS}" if pixels > MAX_PIXELS else None


def _jpeg_trouble(data: bytes) -> str | None:
    """Walk the segments up to the scan (ITU-T T.81, annex B); behind it FF D9 can only be the end of the image."""
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
