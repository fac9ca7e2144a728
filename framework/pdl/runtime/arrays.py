"""Arrays of `numpy.save` and `numpy.savez`, without a pickle; what they announce is believed up to a limit."""

from __future__ import annotations

import math
import os
import zipfile
from collections.abc import Collection
from pathlib import Path
from tokenize import TokenError
from typing import IO

import numpy as np
from numpy.lib import format as npy

from pdl import files
from pdl.dtype import Array
from pdl.files import open_file

_HEADERS = {(1, 0): npy.read_array_header_1_0, (2, 0): npy.read_array_header_2_0}


def read_array(path: str | Path, most: int | None = None) -> Array:
    """The array of a *.npy; OSError as `pdl.files.open_file` has it, ValueError where the file is damaged, holds Python
    objects, or takes more than `most` bytes (None: `pdl.files.MOST`)."""
    most = files.MOST if most is None else most
    with open_file(path, most + (1 << 16)) as file:
        return array_in(file, most)


def read_arrays(path: str | Path, names: Collection[str] | None = None, most: int | None = None) -> dict[str, Array]:
    """The arrays of a *.npz by name, or those of `names` that it has; errors as in `read_array`, of all together."""
    found: dict[str, Array] = {}
    most = files.MOST if most is None else most
    try:
        with open_file(path) as file, zipfile.ZipFile(file) as archive:
            for member in archive.namelist():
                name = member.removesuffix(".npy")
                if name not in found and (names is None or name in names):
                    with archive.open(member) as stream:
                        found[name] = array_in(stream, most - sum(each.nbytes for each in found.values()))
    except files.DAMAGED as error:
        raise ValueError(f"not a whole *.npz ({error})") from None
    return found


def names_in(path: str | Path) -> list[str]:
    """The names of the arrays in a *.npz; errors as in `read_array`."""
    try:
        with open_file(path) as file, zipfile.ZipFile(file) as archive:
            return [member.removesuffix(".npy") for member in archive.namelist()]
    except files.DAMAGED as error:
        raise ValueError(f"not a whole *.npz ({error})") from None


def map_array(path: str | Path) -> Array:
    """The array of a *.npy, read-only, whose numbers are read from the disk as they are used; errors as `read_array`
    has them."""
    with open_file(path) as file:
        shape, by_columns, dtype, size = _announced(file, 1 << 48)
        begin, order = file.tell(), "F" if by_columns else "C"
        have = os.fstat(file.fileno()).st_size - begin
        if have < size:
            raise ValueError(_short(shape, dtype, size, have))
        if not size:
            return np.ndarray(shape, dtype)  # a map cannot hold nothing
        return np.memmap(file, dtype, "r", begin, shape, order)  # type: ignore[call-overload, no-any-return]


def array_in(file: IO[bytes], most: int) -> Array:
    """The array of an open *.npy; errors as in `read_array`."""
    shape, by_columns, dtype, size = _announced(file, most)
    array: Array = np.ndarray(shape[::-1] if by_columns else shape, dtype)
    if size and (have := file.readinto(array.reshape(-1).view(np.uint8))) != size:  # type: ignore[attr-defined]
        raise ValueError(_short(shape, dtype, size, have))
    return array.T if by_columns else array


def _announced(file: IO[bytes], most: int) -> tuple[tuple[int, ...], bool, np.dtype, int]:
    """Shape, whether columns come first, dtype and size in bytes, as the header says."""
    version = npy.read_magic(file)
    if version not in _HEADERS:
        raise ValueError(f"a *.npy of version {'.'.join(map(str, version))}, expected 1.0 or 2.0")
    try:
        shape, by_columns, dtype = _HEADERS[version](file)
    except (RecursionError, MemoryError, TypeError, SyntaxError, OverflowError, TokenError) as error:
        raise ValueError(f"its header is damaged ({type(error).__name__})") from None
    if dtype.hasobject:
        raise ValueError("it holds Python objects, which are never read; save numbers or text")
    count = math.prod(shape)
    if max(count, count * dtype.itemsize) > most or any(n < 0 for n in shape):
        raise ValueError(f"{dtype} {shape} takes {count * dtype.itemsize} bytes, the limit is {most}")
    return shape, by_columns, dtype, count * dtype.itemsize


def _short(shape: tuple[int, ...], dtype: np.dtype, size: int, have: int) -> str:
    return f"{dtype} {shape} takes {size} bytes, the file holds {have}"
