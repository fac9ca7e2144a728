"""Weights of Paddle: `.pdiparams`, which needs the `.pdmodel` beside it, read without Paddle and without running
anything; and layers whose names Paddle2ONNX has lost.

A `.pdiparams` is what Paddle's `save_combine` writes: records in the order of their names, and no names. A record is a
uint32 version, uint64 levels of detail (0), a uint32 version, an int32 n, n bytes of a protobuf message (1: element
type, 2: sizes) and the numbers, all little-endian (Paddle's `SerializeToStream` of a DenseTensor). The names are those
of the persistable variables of the `.pdmodel`, a ProgramDesc (framework.proto).
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import numpy as np

from pdl.dtype import Array
from pdl.errors import DataError
from pdl.files import map_file, read_bytes
from pdl.onnx.graph import Graph

PARAMETERS, PROGRAM = ".pdiparams", ".pdmodel"
MOST_PROGRAM, MOST_SIZE = 2**28, 2**40
#: element types by their numbers in framework.proto, and what holds no numbers: what is fed, fetched, raw
TYPES = {0: np.bool_, 1: np.int16, 2: np.int32, 3: np.int64, 4: np.float16, 5: np.float32, 6: np.float64}
UNSAVED = (9, 10, 17)
_RECORD = struct.Struct("<IQIi")
_LAYER = re.compile(r"(\w+_\d+)\.w_0")
_NORM = re.compile(r"helper\.reshape\.(\d+)")


def read_paddle(path: Path) -> dict[str, Array]:
    """The parameters of a `.pdiparams` by name, windows on the mapped file; DataError for a damaged one, and where no
    `.pdmodel` of the same name lies beside it."""
    names = _names(path.with_suffix(PROGRAM), path)
    try:
        data = map_file(path)
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror})") from None
    found, start = dict[str, Array](), 0
    for name in names:
        try:
            found[name], start = _record(data, start)
        except (struct.error, ValueError, KeyError, IndexError) as error:
            raise DataError(
                f"{path}: no record of {name} at byte {start} ({error}): the file is damaged, or belongs to another "
                f"program than {path.stem}{PROGRAM}"
            ) from None
    if start != len(data):
        raise DataError(
            f"{path}: {len(data) - start} bytes behind the last of the {len(names)} parameters that "
            f"{path.stem}{PROGRAM} names: the two do not belong together"
        )
    return found


def _record(data: memoryview, start: int) -> tuple[Array, int]:
    """The array of the record at `start`, and where the next one begins."""
    version, levels, inner, length = _RECORD.unpack_from(data, start)
    if version or levels or inner or not 0 < length < 1024:
        raise ValueError(f"version {version} and {inner}, {levels} levels, a message of {length} bytes")
    start += _RECORD.size
    kind, sizes = 0, list[int]()
    for field, value in _message(data[start : start + length]):
        if field == 1 and isinstance(value, int):
            kind = value
        elif field == 2:
            sizes += [value] if isinstance(value, int) else _varints(value)
    dtype, count = np.dtype(TYPES[kind]), math.prod(sizes)
    start, end = start + length, start + length + count * np.dtype(TYPES[kind]).itemsize
    if not 0 <= count < MOST_SIZE or end > len(data):
        raise ValueError(f"{sizes} of {dtype} does not fit the file")
    return np.frombuffer(data[start:end], dtype.newbyteorder("<")).reshape(sizes), end


def _names(program: Path, path: Path) -> list[str]:
    """The names of what a `.pdiparams` holds, in its order."""
    try:
        data = memoryview(read_bytes(program, MOST_PROGRAM))
    except OSError as error:
        raise DataError(
            f"{path}: {program.name}, which names what it holds, cannot be read ({error.strerror}): both are of one "
            "export; inference.json of Paddle 3 is not read, take the model's ONNX file"
        ) from None
    found = []
    try:
        for field, block in _message(data):
            if field == 1 and isinstance(block, memoryview):
                found += [name for number, each in _message(block) if number == 3 and (name := _saved(each))]
    except (ValueError, IndexError) as error:
        raise DataError(f"{program}: no program of Paddle, or a damaged one ({error})") from None
    if not found:
        raise DataError(f"{program}: it has no parameters")
    return sorted(found)


def _saved(variable: memoryview | int) -> str:
    """The name of a variable that is saved; "" for others."""
    if isinstance(variable, int):
        raise ValueError("a variable that is a number")
    name, kind, persistent = "", 0, False
    for field, value in _message(variable):
        if field == 1 and isinstance(value, memoryview):
            name = str(value, "utf-8")
        elif field == 2 and isinstance(value, memoryview):
            kind = next((inner for number, inner in _message(value) if number == 1 and isinstance(inner, int)), 0)
        elif field == 3:
            persistent = bool(value)
    return name if persistent and kind not in UNSAVED else ""


def _message(data: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """The fields of a protobuf message with their numbers: integers, and bytes of texts and inner messages."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield key >> 3, value
            continue
        length, at = _varint(data, at) if kind == 2 else ({1: 8, 5: 4}.get(kind, -1), at)
        if length < 0 or at + length > len(data):
            raise ValueError(f"field {key >> 3} of kind {kind} does not fit its message")
        yield key >> 3, data[at : at + length]
        at += length


def _varint(data: memoryview, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        byte = data[at]
        value, at = value | (byte & 127) << shift, at + 1
        if byte < 128:
            return value, at
    raise ValueError("an integer of more than ten bytes")


def _varints(data: memoryview) -> list[int]:
    found, at = list[int](), 0
    while at < len(data):
        value, at = _varint(data, at)
        found.append(value)
    return found


# -- ONNX --------------------------------------------------------------------------------------------------------------
def is_paddle(names: Iterable[str]) -> bool:
    """Whether tensors of a graph have names that Paddle gives, as those of Paddle2ONNX have."""
    return any(_LAYER.fullmatch(name) for name in names)


def named_as_in_paddle(graph: Graph, tensors: Mapping[str, Array]) -> dict[str, Array]:
    """Tensors of a graph, where those of Paddle2ONNX have lost their names under the ones that Paddle gives: a bias is
    what is added behind a convolution `conv2d_7.w_0`, of the shape [C]; kernels of transposed and of one-dimensional
    convolutions and the weights of norms are numbered in the graph's order. Graphs of others are left as they are."""
    found = dict(tensors)
    if not is_paddle(found):
        return found
    origin = {name: name for name in found}  # of what passes through Identity and Cast
    added: dict[str, str] = {}
    for node in graph.nodes:
        if node.op in ("Identity", "Cast"):
            origin[node.outputs[0]] = origin.get(node.inputs[0], node.inputs[0])
        elif node.op == "Add":
            one, other = (origin.get(name, name) for name in node.inputs)
            added.update({value: array for value, array in ((one, other), (other, one)) if array in found})
    counts: dict[str, int] = {}
    for node in graph.nodes:
        weight = origin.get(node.inputs[1]) if node.op in ("Conv", "ConvTranspose") else None
        if weight is None or weight not in found:
            continue
        layer = match[1] if (match := _LAYER.fullmatch(weight)) else _numbered(node.op, counts)
        found[f"{layer}.w_0"] = found.pop(weight)
        bias = origin.get(node.inputs[2]) if len(node.inputs) > 2 else added.get(node.outputs[0])
        if bias in found:
            found[f"{layer}.b_0"] = found.pop(bias).reshape(-1)
    for name in list(found):
        if match := _NORM.fullmatch(name):
            number = int(match[1])
            found[f"layer_norm_{number // 2}.{'b_0' if number % 2 else 'w_0'}"] = found.pop(name)
    return found


def _numbered(op: str, counts: dict[str, int]) -> str:
    kind = "conv2d_transpose" if op == "ConvTranspose" else "conv1d"
    counts[kind] = counts.get(kind, -1) + 1
    return f"{kind}_{counts[kind]}"
