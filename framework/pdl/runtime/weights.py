"""Arrays as safetensors: read as windows on the file, written so that these windows are aligned.

Format: https://github.com/huggingface/safetensors (8 bytes length, a JSON header, the bytes of all tensors without
holes). Own reader, because arrays are to stay in the mapped file and every number of the header is checked here.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from pdl.dtype import Array, DType, bfloat16
from pdl.errors import DataError, DtypeError
from pdl.runtime.strict import check, check_keys, fault, parse

ALIGN = 64
MAX_HEADER = 16 * 2**20
MAX_RANK, MAX_NAME, MAX_ELEMENTS = 16, 512, 2**40
DTYPES: dict[str, DType] = {
    "F64": np.dtype(np.float64), "F32": np.dtype(np.float32), "F16": np.dtype(np.float16), "BF16": bfloat16,
    "I64": np.dtype(np.int64), "I32": np.dtype(np.int32), "I16": np.dtype(np.int16), "I8": np.dtype(np.int8),
    "U64": np.dtype(np.uint64), "U32": np.dtype(np.uint32), "U16": np.dtype(np.uint16), "U8": np.dtype(np.uint8),
    "BOOL": np.dtype(np.bool_),
}  # fmt: skip
NAMES: dict[DType, str] = {dtype: name for name, dtype in DTYPES.items()}
#: how floats may lie in a file beside float32, by the word that people write
HALVES: dict[str, DType] = {"bf16": bfloat16, "fp16": np.dtype(np.float16)}
BITS = (4, 5, 6, 7, 8)  # of an element that shares its value
LLOYD, CHUNK = 40, 1 << 20
#: dtypes of elements whose zeros are left out, by the first byte; that of shared values is one of `BITS`
SPARSE: dict[int, DType] = {0: np.dtype(np.int8), 1: np.dtype(np.float32), 2: bfloat16, 3: np.dtype(np.float16)}
_ENTRY: dict[str, type | tuple[type, ...]] = {"dtype": str, "shape": list, "data_offsets": list}


def to_bytes(arrays: Mapping[str, Array]) -> bytes:
    """The file of these arrays. Those whose size is a multiple of 64 bytes come first, so they begin at one too."""
    return b"".join(pieces(arrays))


def pieces(
    arrays: Mapping[str, Array], metadata: Mapping[str, str] | None = None, names: Mapping[DType, str] = NAMES
) -> Iterator[bytes | memoryview]:
    """`to_bytes` bit by bit, so that nothing as large as the arrays is made; `metadata` goes into the header. `names`
    are the dtypes that may be stored, as the format calls them."""
    order = sorted(arrays, key=lambda name: (-_evenness(arrays[name].nbytes), name))
    header: dict[str, Any] = {"__metadata__": dict(metadata)} if metadata else {}
    at = 0
    for name in order:
        array = arrays[name]
        if array.dtype not in names:
            raise DtypeError(f"{name}: {array.dtype} cannot be stored; what can is {', '.join(map(str, names))}")
        header[name] = {
            "dtype": names[array.dtype],
            "shape": list(array.shape),
            "data_offsets": [at, at + array.nbytes],
        }
        at += array.nbytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-(8 + len(text)) % ALIGN)
    yield len(text).to_bytes(8, "little")
    yield text
    for name in order:
        yield np.ascontiguousarray(arrays[name]).reshape(-1).view(np.uint8).data


def widened(array: Array, dtype: DType, shape: Sequence[int | str] = ()) -> Array:
    """The array as a program reads it: one of float32 that is stored in half the bytes becomes float32, exactly, and
    read-only; so does one of shared values (`coded`), and one of float32 or int8 without its zeros (`without_zeros`).

    dtype, shape   what the program says of it; any other pair of dtypes is left alone. DataError where bytes are none
                   of these
    """
    if dtype not in (np.float32, np.int8):
        return array
    if array.dtype == np.uint8:
        kept = SPARSE.get(int(array[0])) if array.ndim == 1 and array.size else None
        if kept is not None and (kept == np.int8) == (dtype == np.int8):
            array = _with_zeros(array, kept, shape)
        elif dtype == np.float32:
            return _decoded(array, shape)
    if array.dtype not in HALVES.values():
        return array
    wide: Array = array.astype(np.float32)
    wide.flags.writeable = False
    return wide


# -- zeros -------------------------------------------------------------------------------------------------------------
def without_zeros(array: Array) -> Array:
    """An array of a dtype of `SPARSE` as bytes: the number of the dtype there, a bit for each element, 0 for zeros (-0,
    too), and the other elements; the array itself where that takes not at least a quarter less."""
    number = next((n for n, dtype in SPARSE.items() if dtype == array.dtype), None)
    flat = np.ascontiguousarray(array).reshape(-1)
    kept = flat != 0
    nbytes = 1 + -(-flat.size // 8) + int(np.count_nonzero(kept)) * flat.itemsize
    if number is None or nbytes > 3 / 4 * array.nbytes:
        return array
    return np.concatenate([np.array([number], np.uint8), np.packbits(kept), flat[kept].view(np.uint8)])


def _with_zeros(data: Array, dtype: DType, shape: Sequence[int | str]) -> Array:
    """What `without_zeros` made bytes of."""
    sizes = [n for n in shape if type(n) is int]
    count = math.prod(sizes)
    at = 1 + -(-count // 8)
    good = len(sizes) == len(shape) and count <= 8 * data.size
    kept = np.unpackbits(data[1:at], count=count).view(np.bool_) if good else np.empty(0, np.bool_)
    if not good or len(kept) != count or data.size != at + int(np.count_nonzero(kept)) * dtype.itemsize:
        raise DataError(f"{data.size} bytes are no elements of {dtype} {list(shape)} without its zeros")
    wide = np.zeros(count, dtype)
    wide[kept] = data[at:].copy().view(dtype)
    wide = wide.reshape(sizes)
    wide.flags.writeable = False
    return wide


# -- shared values -----------------------------------------------------------------------------------------------------
def coded(array: Array, bits: int) -> Array:
    """An array of float32 in which 2^bits values are shared by all (Han et al., arXiv 1510.00149), as bytes: `bits`,
    the values, and the number of that value which each element has, `bits` of them one behind the other.

    Values are means of what is nearest to them (Lloyd, from values at equal steps).
    """
    flat = np.ascontiguousarray(array).reshape(-1)
    ordered = np.sort(flat).astype(np.float64)
    sums, values = np.concatenate([[0.0], np.cumsum(ordered)]), np.linspace(ordered[0], ordered[-1], 1 << bits)
    for _ in range(LLOYD):
        ends = np.searchsorted(ordered, (values[1:] + values[:-1]) / 2)
        ends = np.concatenate([[0], ends, [flat.size]])
        counts, totals = np.diff(ends), np.diff(sums[ends])
        moved = np.where(counts > 0, totals / np.maximum(counts, 1), values)
        if np.array_equal(moved, values):
            break
        values = np.sort(moved)
    book = values.astype("<f4")
    made = [np.array([bits], np.uint8), book.view(np.uint8)]
    for begin in range(0, flat.size, CHUNK):
        codes = np.searchsorted((book[1:] + book[:-1]) / 2, flat[begin : begin + CHUNK]).astype(np.uint8)
        made.append(codes if bits == 8 else np.packbits(np.unpackbits(codes[:, None], axis=1)[:, 8 - bits :]))
    return np.concatenate(made)


def _decoded(data: Array, shape: Sequence[int | str]) -> Array:
    """What `coded` made bytes of."""
    sizes = [n for n in shape if type(n) is int]
    count, bits = math.prod(sizes), int(data[0]) if data.ndim == 1 and data.size else 0
    at = 1 + (4 << bits)
    if len(sizes) != len(shape) or bits not in BITS or data.size != at + -(-count * bits // 8):
        raise DataError(f"{data.size} bytes are no shared values of {BITS[0]} to {BITS[-1]} bits for {list(shape)}")
    book, wide = data[1:at].copy().view("<f4"), np.empty(count, np.float32)
    for begin in range(0, count, CHUNK):
        part = data[at + begin * bits // 8 : at + -(-min(begin + CHUNK, count) * bits // 8)]
        room = wide[begin : begin + CHUNK]
        if bits < 8:
            rows = np.unpackbits(part, count=room.size * bits).reshape(-1, bits)
            part = np.packbits(np.pad(rows, ((0, 0), (8 - bits, 0))), axis=1)[:, 0]
        np.take(book, part, out=room)
    wide = wide.reshape(sizes)
    wide.flags.writeable = False
    return wide


def _evenness(nbytes: int) -> int:
    """The largest power of two, up to 64, that divides a size."""
    return ALIGN if nbytes == 0 else min(nbytes & -nbytes, ALIGN)


def from_bytes(data: memoryview, source: str, part: str) -> dict[str, Array]:
    """The arrays, read-only windows on `data` (copies where they are not aligned). DataError for a damaged header."""
    check(len(data) >= 8, source, part, f"{len(data)} bytes, too short for safetensors")
    length = int.from_bytes(data[:8], "little")
    check(length <= min(len(data) - 8, MAX_HEADER), source, part, f"a header of {length} bytes in {len(data)}")
    header = parse(bytes(data[8 : 8 + length]), source, part)
    check(isinstance(header, dict), source, part, "its header is no object")
    header.pop("__metadata__", None)
    body = data[8 + length :]
    spans: list[tuple[int, int, str]] = []
    found = {name: _array(name, entry, body, spans, source, part) for name, entry in header.items()}
    at = 0
    for begin, end, name in sorted(spans):
        check(begin == at, source, part, f"tensor {name!r} begins at {begin}, the one before it ends at {at}")
        at = end
    check(at == len(body), source, part, f"the tensors take {at} bytes, there are {len(body)}")
    return found


def _array(name: str, entry: Any, body: memoryview, spans: list[tuple[int, int, str]], source: str, part: str) -> Array:
    check(len(name) <= MAX_NAME, source, part, f"a name of {len(name)} characters")
    where = f"{part}: tensor {name!r}"
    check_keys(entry, _ENTRY, source, where)
    dtype = DTYPES.get(entry["dtype"])
    if dtype is None:
        check(False, source, where, f"dtype {entry['dtype'][:20]!r} is not one of {', '.join(DTYPES)}")
    assert dtype is not None
    numbers = (*entry["shape"], *entry["data_offsets"])
    good = all(type(n) is int and n >= 0 for n in numbers) and len(entry["data_offsets"]) == 2
    check(good and len(entry["shape"]) <= MAX_RANK, source, where, "shape and offsets must be numbers of 0 and more")
    begin, end = entry["data_offsets"]
    size = math.prod(entry["shape"]) * dtype.itemsize
    if math.prod([max(n, 1) for n in entry["shape"]]) > MAX_ELEMENTS:
        raise fault(source, where, f"shape {entry['shape']}")
    if not begin <= end <= len(body):
        raise fault(source, where, f"bytes {begin} to {end} of {len(body)}")
    if end - begin != size:
        raise fault(source, where, f"{end - begin} bytes for {dtype} {entry['shape']}, which takes {size}")
    spans.append((begin, end, name))
    array = np.frombuffer(body[begin:end], np.uint8)
    if dtype.kind == "b":
        check(not array.size or array.max() <= 1, source, where, "a truth value that is neither 0 nor 1")
    if array.ctypes.data % dtype.itemsize:
        array = array.copy()
        array.flags.writeable = False
    return array.view(dtype).reshape(entry["shape"])
