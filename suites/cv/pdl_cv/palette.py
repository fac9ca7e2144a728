"""Colours of classes, and pictures whose pixels are numbers."""

from __future__ import annotations

import zlib

import numpy as np


def encoded_map(numbers: np.ndarray, *, border: bool = False) -> bytes:
    """A label map [H, W] as a PNG: with Pascal VOC's palette, or, where numbers pass 254, of 16 bits. `border`: 255 is
    VOC's border, which is no number."""
    import cv2

    if numbers.max(initial=0) > 254 + border:
        return bytes(cv2.imencode(".png", numbers.astype(np.uint16))[1].tobytes())
    height, width = numbers.shape
    head = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes([8, 3, 0, 0, 0])
    rows = np.concatenate([np.zeros((height, 1), np.uint8), numbers.astype(np.uint8)], axis=1)  # 0: not filtered
    chunks = {b"IHDR": head, b"PLTE": palette().tobytes(), b"IDAT": zlib.compress(rows.tobytes()), b"IEND": b""}
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big")
        for kind, data in chunks.items()
    )


def palette() -> np.ndarray:
    """Pascal VOC's colours, uint8 [256, 3] RGB: bit 3k + c of an index is bit 7 - k of channel c."""
    index = np.arange(256)
    channels = [sum((index >> (3 * k + c) & 1) << (7 - k) for k in range(3)) for c in range(3)]
    return np.stack(channels, axis=1).astype(np.uint8)
