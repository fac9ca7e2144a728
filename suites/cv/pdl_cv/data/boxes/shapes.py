"""Outlines of many objects in a few arrays: polygons, runs, and numbers in label maps. They become masks on access."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeAlias

import numpy as np

from pdl.data.faults import fault, unreadable
from pdl.files import read_bytes
from pdl.runtime import headers
from pdl_cv import rle
from pdl_cv.palette import palette

RINGS, RUNS, MAP = 1, 2, 3
MAX_MAP_BYTES = 256 << 20


@dataclass(frozen=True)
class Rings:
    """Polygons, each flat: x, y, x, y, ..."""

    flat: Sequence[Sequence[float]]


@dataclass(frozen=True)
class Runs:
    """COCO's counts (`pdl_cv.rle`)."""

    counts: Sequence[int] | np.ndarray


@dataclass(frozen=True)
class Pixels:
    """The pixels of a number in a label map; of number 0, all that are not 0."""

    file: str
    number: int


Shape: TypeAlias = Rings | Runs | Pixels


@dataclass
class Shapes:
    """Shape s is of `kind[s]`, between first[s] and last[s]: polygons of RINGS, counts of RUNS; of a MAP, the first is
    the number of the file and the last that in the map. Polygon r is points[rings[r]:rings[r + 1]]."""

    root: Path
    kind: array[int] = field(default_factory=lambda: array("B"))
    first: array[int] = field(default_factory=lambda: array("q"))
    last: array[int] = field(default_factory=lambda: array("q"))
    points: array[float] = field(default_factory=lambda: array("f"))
    rings: array[int] = field(default_factory=lambda: array("q", [0]))
    counts: array[int] = field(default_factory=lambda: array("q"))
    files: dict[str, int] = field(default_factory=dict)

    def add(self, shape: Shape) -> int:
        """Its number."""
        if isinstance(shape, Rings):
            entry = (RINGS, len(self.rings) - 1, len(self.rings) - 1 + len(shape.flat))
            for ring in shape.flat:
                self.points += array("f", ring)
                self.rings.append(len(self.points) // 2)
        elif isinstance(shape, Runs):
            start = len(self.counts)
            self.counts.extend(shape.counts)
            entry = (RUNS, start, len(self.counts))
        else:
            entry = (MAP, self.files.setdefault(shape.file, len(self.files)), shape.number)
        for column, value in zip((self.kind, self.first, self.last), entry, strict=True):
            column.append(value)
        return len(self.kind) - 1

    def polygons(self, number: int, scale: np.ndarray) -> list[np.ndarray] | None:
        """The polygons [P, 2] of a shape times `scale` (x, y), float64; None where it is no polygon."""
        if self.kind[number] != RINGS:
            return None
        found = []
        for ring in range(self.first[number], self.last[number]):
            start, end = self.rings[ring], self.rings[ring + 1]
            points = np.frombuffer(self.points, np.float32)[2 * start : 2 * end].reshape(-1, 2).astype(np.float64)
            found.append(np.round(points * scale, 3))  # as it was written before it was float32
        return found

    def masks(self, numbers: np.ndarray, height: int, width: int, scale: np.ndarray, source: str) -> np.ndarray:
        """uint8 [n, H, W] of these shapes. DataFault names `source` where runs do not fit, or the map of other size."""
        out = np.zeros((len(numbers), height, width), np.uint8)
        maps: dict[int, np.ndarray] = {}
        for mask, number in zip(out, numbers.tolist(), strict=True):
            if self.kind[number] == RINGS:
                mask[:] = rle.polygon_mask(self.polygons(number, scale) or [], height, width)
            elif self.kind[number] == RUNS:
                try:
                    mask[:] = rle.decode(self._counts(number), height, width)
                except ValueError as error:
                    raise fault(source, f"a mask has {error}", "correct its counts, or the image's size") from None
            else:
                file = self.first[number]
                if file not in maps:
                    maps[file] = self._map(file, height, width)
                value = self.last[number]
                mask[:] = maps[file] == value if value else maps[file] != 0
        return out

    def _counts(self, number: int) -> np.ndarray:
        return np.frombuffer(self.counts, np.int64)[self.first[number] : self.last[number]]

    def _map(self, file: int, height: int, width: int) -> np.ndarray:
        path = self.root / list(self.files)[file]
        found = label_map(path)
        if found.shape != (height, width):
            what = f"the mask has {found.shape[1]} x {found.shape[0]} pixels, its image {width} x {height}"
            raise fault(path, what, "give both the same size")
        return found


def label_map(path: Path) -> np.ndarray:
    """The numbers int32 [H, W] in a PNG: its values, 8 or 16 bits; of one with Pascal VOC's palette, the indices, the
    border (255) as 0; of other colours, 65536 R + 256 G + B. DataFault for what is no such image.
    """
    import cv2

    try:
        data = read_bytes(path, MAX_MAP_BYTES)
    except OSError as error:
        raise unreadable(path, error) from error
    trouble = headers.trouble(data)
    found = None if trouble else cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_UNCHANGED)
    if found is None or found.dtype not in (np.uint8, np.uint16):
        raise fault(path, trouble or "not a label map of 8 or 16 bits", "write instance masks as PNG")
    if found.ndim == 2:
        return found.astype(np.int32)
    blue, green, red = (found[..., channel].astype(np.int32) for channel in range(3))
    if (blue == green).all() and (green == red).all():
        return blue
    colours = red << 16 | green << 8 | blue
    return _of_palette(colours)


def _of_palette(colours: np.ndarray) -> np.ndarray:
    codes = palette().astype(np.int64) @ np.array([1 << 16, 1 << 8, 1])
    order = np.argsort(codes)
    at = np.minimum(np.searchsorted(codes[order], colours), 255)
    if (codes[order][at] != colours).any():
        return colours
    index = order[at].astype(np.int32)
    return np.where(index == 255, 0, index)
