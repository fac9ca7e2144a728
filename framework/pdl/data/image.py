"""Read images: bytes to uint8 [H, W, C], RGB or gray; damaged files are reported and never half decoded."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import cv2
import numpy as np

from pdl.data.faults import LEAVE_OUT, Fault, fault, unreadable
from pdl.errors import ConfigError
from pdl.files import map_file, read_bytes
from pdl.runtime import headers
from pdl.runtime.headers import EXTENSIONS as EXTENSIONS

Mode = Literal["rgb", "gray"]
_FLAGS = {
    "rgb": {1: cv2.IMREAD_COLOR, 2: cv2.IMREAD_REDUCED_COLOR_2, 4: cv2.IMREAD_REDUCED_COLOR_4,
            8: cv2.IMREAD_REDUCED_COLOR_8},
    "gray": {1: cv2.IMREAD_GRAYSCALE, 2: cv2.IMREAD_REDUCED_GRAYSCALE_2, 4: cv2.IMREAD_REDUCED_GRAYSCALE_4,
             8: cv2.IMREAD_REDUCED_GRAYSCALE_8},
}  # fmt: skip
REPAIR = f"replace or remove the file, or {LEAVE_OUT}"


def check_mode(owner: str, mode: str) -> Mode:
    """`mode` itself; raises ConfigError unless it is 'rgb' or 'gray'."""
    if mode not in ("rgb", "gray"):
        raise ConfigError(f"{owner}: mode={mode!r} must be 'rgb' or 'gray'")
    return mode  # type: ignore[return-value]


def read_image(path: str | Path, *, mode: Mode = "rgb", index: int | None = None, reduce: int = 1) -> np.ndarray:
    """The image in a file: uint8 [H, W, 3] RGB, or [H, W, 1] gray; rotated as its EXIF data says. Raises DataFault.

    reduce  2, 4 or 8: at 1/2, 1/4 or 1/8 of its size, rounded; a JPEG is decoded in a third of the time or less
    """
    try:
        data = read_bytes(path)
    except OSError as error:
        raise unreadable(path, error, index=index) from error
    return decode_image(data, mode=mode, path=path, index=index, reduce=reduce)


def decode_image(data: bytes, *, mode: Mode = "rgb", path: str | Path | None = None,
                 index: int | None = None, reduce: int = 1) -> np.ndarray:
    """The image in the bytes of a file (what OpenCV reads: JPEG, PNG, BMP, WebP, TIFF, PNM, ...).

    Alpha is dropped, 16 bits become 8, gray becomes RGB by repetition, RGB becomes gray by ITU-R BT.601. Raises
    DataFault for empty, cut off, foreign or oversized files; a cut-off JPEG, which decoders fill up with gray, too.
    `reduce` as for `read_image`.
    """
    trouble = headers.trouble(data)
    if trouble:
        raise fault(path, trouble, REPAIR, index=index)
    try:
        flag = _FLAGS[mode][reduce]
        image = cv2.imdecode(np.frombuffer(data, np.uint8), flag)
    except cv2.error as error:
        raise fault(path, f"cannot be decoded: {error.err or error}", REPAIR, index=index) from error
    if image is None:
        what = f"{headers.kind(data)}, {len(data)} bytes"
        raise fault(path, f"not an image that can be decoded ({what})", REPAIR, index=index)
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


def mapped(path: str | Path) -> headers.Data:
    """The content of a file, read from the disk as it is used; OSError as `pdl.files.open_file` has it."""
    if not Path(path).stat().st_size:
        return b""  # which cannot be mapped
    return map_file(path).obj  # type: ignore[return-value]


def fault_of(path: str | Path, *, index: int | None = None) -> Fault | None:
    """What is wrong with an image file: absent, empty, cut off, too large, of another format; None if it looks whole.
    Nothing is decoded, and of most files only the beginning and the end are read."""
    try:
        trouble = headers.trouble(mapped(path))
    except OSError as error:
        return unreadable(path, error, index=index).fault
    return Fault(str(path), index, trouble, REPAIR) if trouble else None
