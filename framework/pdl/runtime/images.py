"""Images uint8 [H, W, C] without OpenCV: what `pdl.data.transforms` does with it, to the same bytes.

Resizing follows OpenCV's sample points, weights and rounding (areas when shrinking, 11-bit linear weights otherwise);
the tests hold every function to OpenCV's result. Only files are decoded by OpenCV, where it is installed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from pdl.dtype import Array, float32, uint8
from pdl.errors import DataError, UsageError
from pdl.files import read_bytes
from pdl.kernels import image as kernels
from pdl.kernels.memory import empty
from pdl.runtime import headers

METHODS = ("auto", "area", "linear", "nearest")
MODES = ("rgb", "gray")
BORDERS = ("constant", "reflect", "edge")
MAX_SIDE = 1 << 15
_BLOCK = 1 << 20  # pixels that are turned gray at once
MOST_BYTES = 1 << 30  # of any image: between steps, and what a file unpacks to
Size: TypeAlias = "tuple[int, int]"


def require_room(shape: Sequence[int], itemsize: int = 1) -> None:
    """DataError for an image of more than `MOST_BYTES`, before memory is taken for it."""
    if math.prod(shape) * itemsize > MOST_BYTES:
        raise DataError(
            f"an image would take {' x '.join(map(str, shape))} numbers of {itemsize} bytes, more than the limit of "
            f"{MOST_BYTES} bytes; give a smaller image, or resize it earlier"
        )


def resize(x: Array, size: Size, method: str = "auto") -> Array:
    """x uint8 [H, W, C] at `size` (height, width); "auto" averages areas when shrinking and is linear otherwise."""
    if x.shape[:2] == tuple(size):
        return x
    require_room((*size, x.shape[2]))
    y = empty((*size, x.shape[2]), uint8)
    _resize_into(y, x, method)
    return y


def _resize_into(y: Array, x: Array, method: str) -> None:
    """The same into y [h, w, C], whose rows may lie apart."""
    (h, w), (height, width) = y.shape[:2], x.shape[:2]
    if method == "auto":
        method = "area" if h * w < height * width else "linear"
    if method == "nearest" or (height, width) == (h, w):
        y[...] = x[_nearest(height, h)][:, _nearest(width, w)] if method == "nearest" else x
        return
    x = np.ascontiguousarray(x)
    shrinks = height >= h and width >= w
    whole = height % h == 0 and width % w == 0
    halved = (height, width) == (2 * h, 2 * w)
    if (method == "area" and shrinks) or (method == "linear" and halved):
        rows, columns = _area(height, h, whole), _area(width, w, whole)
        scale = np.float32(1 / ((height // h) * (width // w))) if whole else 1.0
        kernels.area(y, x, *rows, *columns, float(scale), halved)
    else:
        kernels.linear(y, x, _linear(height, h, method == "area", True), _linear(width, w, method == "area", False))


@lru_cache(maxsize=256)
def _nearest(size: int, out: int) -> Array:
    return np.minimum(np.floor(np.arange(out) * (1 / (out / size))), size - 1).astype(np.intp)


@lru_cache(maxsize=256)
def _area(size: int, out: int, whole: bool) -> tuple[Array, Array, Array]:
    """Terms of the means over areas: (start, source, weight); weights are 1 where the sizes divide (`whole`)."""
    scale = 1 / (out / size)
    if whole:
        each = size // out
        return np.arange(0, size + 1, each, dtype=np.int32), np.arange(size, dtype=np.int32), np.ones(size, np.float32)
    begin = np.arange(out) * scale
    end = begin + scale
    cell = np.minimum(scale, size - begin)
    last = np.minimum(np.floor(end), size - 1).astype(np.int64)
    first = np.minimum(np.ceil(begin), last).astype(np.int64)
    starts, sources, weights = [0], [], []
    for o in range(out):
        if first[o] - begin[o] > 1e-3:
            sources.append(first[o] - 1)
            weights.append((first[o] - begin[o]) / cell[o])
        sources += range(first[o], last[o])
        weights += [1 / cell[o]] * int(last[o] - first[o])
        if end[o] - last[o] > 1e-3:
            sources.append(last[o])
            weights.append(min(min(end[o] - last[o], 1.0), cell[o]) / cell[o])
        starts.append(len(sources))
    return np.array(starts, np.int32), np.array(sources, np.int32), np.array(weights, np.float32)


@lru_cache(maxsize=256)
def _linear(size: int, out: int, as_area: bool, rows: bool) -> Array:
    """[4, out]: the two cells beside each output and their weights in 11 bits. With `as_area` the sample points are
    those that OpenCV takes for areas where one axis grows. Outside, rows repeat a cell and columns weigh one alone."""
    inverse = out / size
    scale = 1 / inverse
    o = np.arange(out, dtype=np.float64)
    if as_area:
        low = np.floor(o * scale)
        part = ((o + 1) - (low + 1) * inverse).astype(np.float32)
        part = np.where(part <= 0, np.float32(0), part - np.floor(part)).astype(np.float32)
    else:
        at = ((o + 0.5) * scale - 0.5).astype(np.float32)
        low = np.floor(at)
        part = at - low.astype(np.float32)
    if not rows:
        outside = (low < 0) | (low >= size - 1)
        part = np.where(outside, np.float32(0), part)
    cells = [np.clip(low, 0, size - 1), np.clip(low + 1, 0, size - 1)]
    weights = [np.rint((np.float32(1) - part) * np.float32(2048)), np.rint(part * np.float32(2048))]
    return np.ascontiguousarray(np.stack([*cells, *weights]).astype(np.int32))


def resize_short(x: Array, size: int, method: str = "auto") -> Array:
    """x with its shorter side at `size` pixels and the same proportions."""
    factor = size / min(x.shape[:2])
    return resize(x, (max(1, round(x.shape[0] * factor)), max(1, round(x.shape[1] * factor))), method)


def crop(x: Array, size: Size, fill: tuple[float, ...] = (0,)) -> Array:
    """The middle `size` pixels, at (H - h) // 2; smaller images are padded first."""
    h, w = size
    dy, dx = max(0, h - x.shape[0]), max(0, w - x.shape[1])
    x = pad(x, (dx // 2, dy // 2, dx - dx // 2, dy - dy // 2), fill, "constant")
    top, left = (x.shape[0] - h) // 2, (x.shape[1] - w) // 2
    return x[top : top + h, left : left + w]


def pad(x: Array, padding: tuple[int, int, int, int], fill: tuple[float, ...] = (0,), mode: str = "constant") -> Array:
    """x with (left, top, right, bottom) pixels more: of `fill`, mirrored ("reflect") or repeated ("edge")."""
    left, top, right, bottom = padding
    if not any(padding):
        return x
    require_room((x.shape[0] + top + bottom, x.shape[1] + left + right, x.shape[2]), x.itemsize)
    if mode != "constant":
        if mode == "reflect" and (max(top, bottom) >= x.shape[0] or max(left, right) >= x.shape[1]):
            raise UsageError(f"padding {padding} by reflection needs a larger image than {x.shape[0]} x {x.shape[1]}")
        return np.pad(x, ((top, bottom), (left, right), (0, 0)), mode="reflect" if mode == "reflect" else "edge")
    y = empty((x.shape[0] + top + bottom, x.shape[1] + left + right, x.shape[2]), x.dtype)
    _framed(y, padding, fill)[...] = x
    return y


def _framed(y: Array, padding: tuple[int, int, int, int], fill: tuple[float, ...]) -> Array:
    """What lies inside of a frame (left, top, right, bottom), which is filled."""
    left, top, right, bottom = padding
    h, w = len(y) - bottom, y.shape[1] - right
    value = np.asarray(fill, y.dtype)
    for edge in (y[:top], y[h:], y[top:h, :left], y[top:h, w:]):
        edge[...] = value
    return y[top:h, left:w]


def letterbox_places(
    shape: Sequence[int], size: Size, *, centre: bool, enlarge: bool
) -> tuple[Size, tuple[int, int, int, int]]:
    """The largest size (height, width) with the proportions of `shape` (height, width, ...) that fits into `size`, no
    larger than it was unless `enlarge`; and the padding (left, top, right, bottom) to `size`, the same on both sides
    if `centre`, else on the right and below."""
    (height, width), (h, w) = size, shape[:2]
    factor = min(height / h, width / w) if enlarge else min(height / h, width / w, 1.0)
    h, w = min(height, max(1, round(h * factor))), min(width, max(1, round(w * factor)))
    top, left = ((height - h) // 2, (width - w) // 2) if centre else (0, 0)
    return (h, w), (left, top, width - w - left, height - h - top)


def letterbox(
    x: Array, size: Size, fill: tuple[float, ...] = (114,), method: str = "auto", *, centre: bool, enlarge: bool
) -> Array:
    """x resized into `size` with its proportions, the rest filled; see `letterbox_places`."""
    inner, padding = letterbox_places(x.shape, size, centre=centre, enlarge=enlarge)
    if inner == x.shape[:2] and not any(padding):
        return x
    require_room((*size, x.shape[2]))
    y = empty((*size, x.shape[2]), uint8)
    _resize_into(_framed(y, padding, fill), x, method)
    return y


def is_tall(x: Array, times: float) -> bool:
    """Whether an image [H, W, C] is at least so many times as high as wide."""
    return bool(x.shape[0] >= times * x.shape[1])


def sideways(x: Array) -> tuple[Array, Array]:
    """An image [H, W, C] turned by 90 degrees to the left, and to the right."""
    return np.ascontiguousarray(np.rot90(x)), np.ascontiguousarray(np.rot90(x, -1))


def gray(x: Array) -> Array:
    """[H, W, 1] of [H, W, 3] by ITU-R BT.601 in 15 bits: (9798 R + 19235 G + 3735 B + 2^14) / 2^15."""
    if x.shape[2] == 1:
        return x
    y = np.empty((*x.shape[:2], 1), np.uint8)
    rows = max(1, _BLOCK // x.shape[1])
    for top in range(0, len(x), rows):
        r, g, b = (x[top : top + rows, :, i].astype(np.uint32) for i in range(3))
        y[top : top + rows, :, 0] = (9798 * r + 19235 * g + 3735 * b + (1 << 14)) >> 15
    return y


def stretched(x: Array, low: float, high: float, *, each: bool = False) -> Array:
    """255 (x - a) / (b - a) of x uint8 [H, W, C], rounded and clipped to 0..255: a is the least value with more than a
    share `low` of the numbers at or below it, b the greatest with more than `high` at or above; of all channels, or of
    `each` its own. An image, or a channel, with b <= a stays as it is."""
    y = np.empty_like(x)
    rows = max(1, _BLOCK // x.shape[1])
    for part in [slice(c, c + 1) for c in range(x.shape[2])] if each else [slice(None)]:
        counts = np.zeros(256, np.int64)
        for top in range(0, len(x), rows):
            counts += np.bincount(x[top : top + rows, :, part].ravel(), minlength=256)
        total = counts.sum()
        a = int(np.argmax(np.cumsum(counts) > low * total))
        b = 255 - int(np.argmax(np.cumsum(counts[::-1]) > high * total))
        values = np.arange(256.0) if b <= a else (np.arange(256) - a) * (255 / (b - a))
        y[..., part] = np.clip(np.rint(values), 0, 255).astype(np.uint8)[x[..., part]]
    return y


def change_mode(x: Array, mode: str) -> Array:
    """x [H, W, 1 or 3] with the channels of `mode`, "rgb" or "gray"."""
    if mode == "gray":
        return gray(x)
    return repeated(x) if x.shape[2] == 1 else x


def repeated(x: Array, channels: int = 3) -> Array:
    """x [H, W, 1] with equal channels."""
    require_room((*x.shape[:2], channels), x.itemsize)
    return np.repeat(x, channels, axis=2)


def normalized(x: Array, mean: tuple[float, ...], std: tuple[float, ...]) -> Array:
    """(x / 255 - mean) / std in float32; bytes through a table of values computed in float64."""
    channels = x.shape[2]
    if len(mean) not in (1, channels):
        raise UsageError(f"normalize: {len(mean)} means for {channels} channels")
    require_room(x.shape, 4)
    if x.dtype != np.uint8:
        made: Array = (x.astype(np.float32) - np.array(mean, np.float32)) / np.array(std, np.float32)
        return made
    table = _table(mean, std)
    y = empty(x.shape, float32)
    given = table.shape[1]
    kernels.lookup(y.reshape(-1, given), np.ascontiguousarray(x).reshape(-1, given), table)
    return y


@lru_cache(maxsize=64)
def _table(mean: tuple[float, ...], std: tuple[float, ...]) -> Array:
    values = (np.arange(256)[:, None] / 255 - np.array(mean)) / np.array(std)
    return np.ascontiguousarray(values.astype(np.float32))


def read(item: Any, mode: str) -> Array:
    """uint8 [H, W, C] in `mode`, of an array (uint8 [H, W] or [H, W, 1 or 3], RGB), a path, or the bytes of a file."""
    if isinstance(item, np.ndarray):
        x = item[..., None] if item.ndim == 2 else item
        good = x.dtype == np.uint8 and x.ndim == 3 and x.shape[2] in (1, 3) and x.size
        if not good or max(x.shape) > MAX_SIDE:
            raise UsageError(
                f"an image is an array uint8 [H, W], [H, W, 1] or [H, W, 3] (RGB), at most {MAX_SIDE} pixels a side; "
                f"got {item.dtype} {item.shape}"
            )
        return change_mode(x, mode)
    if isinstance(item, bytes | bytearray | memoryview):
        return decode(bytes(item), mode, "bytes")
    if not isinstance(item, str | Path):
        raise UsageError(f"an image is an array, a path or the bytes of a file, not {type(item).__name__}")
    try:
        data = read_bytes(item)
    except OSError as error:
        raise DataError(f"{item}: cannot be read ({error.strerror}); name an image") from None
    return decode(data, mode, str(item))


def opencv(what: str, instead: str = "") -> Any:
    """The module cv2. UsageError where it is not installed: what is done by it, and what can be done instead."""
    try:
        import cv2
    except ImportError:
        raise UsageError(
            f"{what} by OpenCV, which is not installed; pip install opencv-python-headless{instead}"
        ) from None
    return cv2


def decode(data: bytes, mode: str, source: str) -> Array:
    """The image in the bytes of a JPEG, PNG, ... file, by OpenCV; RGB, or gray as the decoder gives it."""
    cv2 = opencv(f"{source}: images in files are decoded", ", or give an array uint8 [H, W, 3]")
    damage = headers.trouble(data)
    if damage:
        raise DataError(f"{source}: {damage}; give a whole image")
    try:
        flag = cv2.IMREAD_GRAYSCALE if mode == "gray" else cv2.IMREAD_COLOR
        x = cv2.imdecode(np.frombuffer(data, np.uint8), flag)
    except cv2.error as error:
        raise DataError(f"{source}: cannot be decoded ({error.err or error}); give a whole image") from None
    if x is None:
        what = f"{headers.kind(data)}, {len(data)} bytes"
        raise DataError(f"{source}: not an image that can be decoded ({what}); give a whole image")
    return x[:, :, None] if mode == "gray" else cv2.cvtColor(x, cv2.COLOR_BGR2RGB)
