"""PyTorch's weights (`.pth`, `.pt`): a dict of tensors by name, read without PyTorch and without running anything.

Two layouts, as `torch/serialization.py` has them:

    zip       since 1.6. ROOT/data.pkl, ROOT/data/KEY for each storage (members are stored, not compressed), and since
              2.1 ROOT/byteorder with "little" or "big"
    legacy    pickles one after the other: a magic number, 1001, facts about the machine, the dict, the list of storage
              keys; then for each key its number of elements (int64) and its bytes. Always little-endian

Tensors are windows on the mapped file where alignment and byte order allow it.
"""

from __future__ import annotations

import math
import os
import struct
import zipfile
import zlib
from collections.abc import Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError
from pdl.files import map_file
from pdl.hub.torch_pickle import ADVICE, MAX_STEPS, Machine, Storage, StoredTensor

SUFFIXES = (".pth", ".pt", ".bin")
MAGIC, PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
MAX_PICKLE = 64 * 2**20
MAX_NUMBERS = 2**40
MAX_EXPANDED = 2**20  # numbers of a tensor that repeats those of its storage
MAX_REPEATED = 8  # times the bytes of the file that all tensors take together, and `MAX_EXPANDED` more
MAX_DIRECTORY = 4 * 2**20  # bytes of the directory of a zip: 60,000 members
#: keys of the dict of tensors inside a checkpoint that holds more than that
INSIDE = ("state_dict", "model_state_dict", "model_state", "model", "module")
WRAPPED = "module."  # what torch.nn.DataParallel puts before every name
_LOCAL = struct.Struct("<4s22xHH")
_BROKEN = (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, RuntimeError, EOFError, struct.error,
           IndexError, KeyError, OverflowError, zlib.error)  # fmt: skip


def read_torch(path: str | Path) -> dict[str, Array]:
    """The tensors of a PyTorch file by name, read-only.

    A checkpoint with a dict of tensors under one of the keys `INSIDE` gives that dict; names that all begin with
    "module." lose it. DataError where the file is damaged, holds anything but tensors, or would run code.
    """
    source = os.fspath(path)
    data = _mapped(source)
    if bytes(data[:4]) == b"PK\x03\x04":
        content, storages = _zip(data, source)
    else:
        content, storages = _legacy(data, source)
    state = _state_dict(content, source)
    found = {name: _array(tensor, storages, f"{source}: {name}") for name, tensor in state.items()}
    _check_sizes(found, len(data), source)
    if found and all(name.startswith(WRAPPED) for name in found):
        return {name.removeprefix(WRAPPED): array for name, array in found.items()}
    return found


def _mapped(source: str) -> memoryview:
    try:
        return map_file(source)
    except OSError as error:
        raise DataError(f"{source}: cannot be read ({error.strerror})") from None


# -- zip ---------------------------------------------------------------------------------------------------------------
def _zip(data: memoryview, source: str) -> tuple[Any, _Storages]:
    """The content of data.pkl, and the bytes of all storages in little-endian order."""
    members = _members(data, source)
    pickles = [name for name in members if name.endswith("/data.pkl") and name.count("/") == 1]
    if len(pickles) != 1:
        torchscript = any(name.endswith("/constants.pkl") for name in members)
        what = "a TorchScript program" if torchscript else f"a zip archive with {len(pickles)} files ROOT/data.pkl"
        raise DataError(f"{source}: {what}, no dict of tensors; {ADVICE}")
    root = pickles[0].removesuffix("data.pkl")
    order = bytes(members.get(f"{root}byteorder", b"little"))
    if order not in (b"little", b"big"):
        raise DataError(f"{source}: byteorder is {order[:20]!r}, expected little or big")
    text = members[pickles[0]]
    if len(text) > MAX_PICKLE:
        raise DataError(f"{source}: data.pkl takes {len(text)} bytes, limit {MAX_PICKLE}")
    machine = Machine(text, source)
    content = machine.run()
    prefix = f"{root}data/"
    kept = {name.removeprefix(prefix): view for name, view in members.items() if name.startswith(prefix)}
    return content, _Storages(kept, swapped=order == b"big")


def _members(data: memoryview, source: str) -> dict[str, memoryview]:
    """The bytes of every member, as views of the file, their checksums verified."""
    try:
        with zipfile.ZipFile(_File(data)) as archive:  # type: ignore[arg-type]
            infos = archive.infolist()
    except _BROKEN as error:
        raise DataError(f"{source}: a damaged zip archive ({error}); fetch it again") from None
    spans = sorted((*_span(data, info, f"{source}: {info.filename}"), info.filename) for info in infos)
    for (_, end, first), (begin, _, second) in pairwise(spans):
        if begin < end:
            raise DataError(f"{source}: {second[:80]} overlaps {first[:80]} in the archive, as no honest one does")
    if len({name for _, _, name in spans}) < len(spans):
        raise DataError(f"{source}: a member stands twice in the archive, as in no honest one")
    return {info.filename: _member(data, info, f"{source}: {info.filename}") for info in infos}


def _span(data: memoryview, info: zipfile.ZipInfo, where: str) -> tuple[int, int]:
    """Where a member begins, with its own header, and ends."""
    if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size or info.flag_bits & 1:
        raise DataError(f"{where}: compressed or encrypted, which PyTorch writes never")
    begin = info.header_offset
    if not 0 <= begin <= len(data) - _LOCAL.size:
        raise DataError(f"{where}: begins beyond the end of the file; fetch it again")
    magic, name, extra = _LOCAL.unpack_from(data, begin)
    if magic != b"PK\x03\x04":
        raise DataError(f"{where}: no member begins where it should; fetch the file again")
    return begin, begin + _LOCAL.size + name + extra + info.file_size


def _member(data: memoryview, info: zipfile.ZipInfo, where: str) -> memoryview:
    end = _span(data, info, where)[1]
    view = data[end - info.file_size : end]
    if len(view) != info.file_size or zlib.crc32(view) != info.CRC:
        raise DataError(f"{where}: its bytes are not those that were written (checksum); fetch the file again")
    return view


class _File:
    """Bytes as the file that `zipfile` reads."""

    def __init__(self, data: memoryview) -> None:
        self.data, self.at = data, 0

    def seekable(self) -> bool:
        """Yes."""
        return True

    def tell(self) -> int:
        """The position."""
        return self.at

    def seek(self, offset: int, whence: int = 0) -> int:
        """Go to a position, never before the beginning."""
        at = offset + (0, self.at, len(self.data))[whence]
        if at < 0:
            raise OSError("a position before the beginning")
        self.at = at
        return at

    def read(self, n: int = -1) -> bytes:
        """The next n bytes, or all; never more than a directory takes."""
        if min(n, len(self.data) - self.at) > MAX_DIRECTORY:
            raise OSError(f"a directory of more than {MAX_DIRECTORY} bytes")
        end = len(self.data) if n < 0 else self.at + n
        found = bytes(self.data[self.at : end])
        self.at += len(found)
        return found


# -- legacy ------------------------------------------------------------------------------------------------------------
def _legacy(data: memoryview, source: str) -> tuple[Any, _Storages]:
    """The dict, and the bytes of all storages."""
    if not len(data) or data[0] != 0x80:
        tar = len(data) > 262 and bytes(data[257:262]) == b"ustar"
        what = "a tar archive of PyTorch 0.1, which is not read" if tar else "no PyTorch file"
        raise DataError(f"{source}: {what}")
    at, parts, left = 0, [], MAX_STEPS
    for number in range(5):
        machine = Machine(data[: at + MAX_PICKLE], source, at, left)
        parts.append(machine.run())
        at, left = machine.at, machine.left
        if number < 2 and parts[number] != (MAGIC, PROTOCOL)[number]:
            raise DataError(f"{source}: a pickle, but not one that torch.save wrote; {ADVICE}")
    sizes = {each.key: each for each in _storages(parts[3])}
    found: dict[str, memoryview] = {}
    for key in parts[4] if isinstance(parts[4], list) else [None]:
        if not isinstance(key, str) or key in found or key not in sizes:
            what = repr(key[:40]) if isinstance(key, str) else f"a {type(key).__name__}"
            raise DataError(f"{source}: its list of storages holds {what}; the file is damaged")
        count, item = int.from_bytes(data[at : at + 8], "little"), sizes[key].dtype.itemsize
        found[key] = data[at + 8 : at + 8 + sizes[key].numel * item]
        if count != sizes[key].numel or len(found[key]) != count * item:
            raise DataError(f"{source}: storage {key[:40]!r} is not as long as it says; the file is cut off or damaged")
        at += 8 + count * item
    return parts[3], _Storages(found)


def _storages(content: Any) -> list[Storage]:
    """The storages of all tensors at any depth."""
    found: list[Storage] = []
    level, seen = [content], set()
    while level:
        value = level.pop()
        if isinstance(value, StoredTensor):
            found.append(value.storage)
        elif isinstance(value, Storage):
            found.append(value)
        elif isinstance(value, dict | list | tuple) and id(value) not in seen:
            seen.add(id(value))
            level += value.values() if isinstance(value, dict) else value
    return found


# -- tensors -----------------------------------------------------------------------------------------------------------
def _state_dict(content: Any, source: str) -> dict[str, StoredTensor]:
    """The dict of tensors that the file is, or that it holds under a usual name."""
    if not isinstance(content, dict):
        raise DataError(f"{source}: holds a {type(content).__name__}, not a dict of tensors; {ADVICE}")
    inner = next((content[key] for key in INSIDE if isinstance(content.get(key), dict)), content)
    wrong = [key for key, value in inner.items() if not (isinstance(key, str) and isinstance(value, StoredTensor))]
    if wrong or not inner:
        kinds = ", ".join(f"{str(key)[:40]!r} ({type(inner[key]).__name__})" for key in wrong[:5])
        said = f"its entries {kinds} are no tensors" if wrong else "it holds no tensors"
        raise DataError(f"{source}: {said}; {ADVICE}")
    return inner


def _check_sizes(found: Mapping[str, Array], size: int, source: str) -> None:
    """Tensors may share numbers, but what they take together stays in proportion to the file."""
    together = sum(each.nbytes for each in found.values())
    if together > MAX_REPEATED * (size + MAX_EXPANDED):
        raise DataError(f"{source}: its tensors take {together} bytes, the file has {size}; they repeat it too often")


class _Storages:
    """The bytes of the storages by key, as numbers of this machine; `swapped` where they are the other way round."""

    def __init__(self, kept: Mapping[str, memoryview], *, swapped: bool = False) -> None:
        self.kept, self.swapped = kept, swapped
        self._numbers: dict[str, Array] = {}

    def numbers(self, storage: Storage, where: str) -> Array:
        """All numbers of a storage; looked over, turned and aligned once for all tensors on it."""
        found = self._numbers.get(storage.key)
        if found is None:
            found = self._numbers[storage.key] = self._read(storage, where)
        if found.dtype != storage.dtype or len(found) < storage.numel:
            both = f"{len(found)} {found.dtype.name} and {storage.numel} {storage.dtype.name}"
            raise DataError(f"{where}: storage {storage.key[:40]!r} would hold both {both}")
        return found

    def _read(self, storage: Storage, where: str) -> Array:
        data, item = self.kept.get(storage.key), storage.dtype.itemsize
        if data is None or len(data) < storage.numel * item:
            have = "is not in the file" if data is None else f"has {len(data)} bytes"
            raise DataError(f"{where}: storage {storage.key[:40]!r} of {storage.numel} {storage.dtype.name} {have}")
        raw = np.frombuffer(data, np.uint8, len(data) // item * item)
        if self.swapped and item > 1:
            raw = raw.view(f"u{item}").byteswap().view(np.uint8)
        if raw.ctypes.data % item:
            raw = raw.copy()
        if storage.dtype == np.bool_ and raw.size and raw.max() > 1:
            raise DataError(f"{where}: a truth value that is neither 0 nor 1")
        return raw.view(storage.dtype)


def _array(tensor: StoredTensor, storages: _Storages, where: str) -> Array:
    """The tensor as an array, once its storage is known to hold every number that it reaches."""
    storage, dtype = tensor.storage, tensor.storage.dtype
    numbers = storages.numbers(storage, where)[storage.begin : storage.begin + storage.size]
    count = math.prod(tensor.shape)
    if count > max(storage.size, MAX_EXPANDED) or math.prod(max(n, 1) for n in tensor.shape) > MAX_NUMBERS:
        raise DataError(f"{where}: a tensor {tensor.shape} over {storage.size} numbers repeats them too often")
    if not count:
        return np.empty(tensor.shape, dtype)
    steps = [step * dtype.itemsize if n > 1 else 0 for n, step in zip(tensor.shape, tensor.strides, strict=True)]
    return np.lib.stride_tricks.as_strided(numbers[tensor.offset :], tensor.shape, steps, writeable=False)
