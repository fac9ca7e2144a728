"""Paddle's parameters: `.pdiparams`, records in the order of their names, and no names.

A record is what Paddle's `SerializeToStream` writes of a DenseTensor: a uint32 version, uint64 levels of detail (0),
a uint32 version, an int32 n, n bytes of a protobuf message (1: element type, 2: sizes) and the numbers, all
little-endian. The names are those of the parameters of the program beside it, sorted: a ProgramDesc (`.pdmodel`,
framework.proto) or the JSON of Paddle 3.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from pdl.dtype import Array, DType
from pdl.limits import check_time
from pdl.onnx.protobuf import Message

PARAMETERS, PROGRAM, JSON = ".pdiparams", ".pdmodel", ".json"
MOST_SIZE = 2**40
#: element types by their numbers in framework.proto; and variables that hold no numbers: what is fed, fetched, raw
TYPES: dict[int, DType] = {
    0: np.dtype(np.bool_), 1: np.dtype(np.int16), 2: np.dtype(np.int32), 3: np.dtype(np.int64), 4: np.dtype(np.float16),
    5: np.dtype(np.float32), 6: np.dtype(np.float64), 20: np.dtype(np.uint8), 21: np.dtype(np.int8),
    22: np.dtype(ml_dtypes.bfloat16),
}  # fmt: skip
UNSAVED = (9, 10, 17)
#: what a parameter is called in the JSON, and where its name stands among its attributes
PARAMETER, NAME = "p", 3
#: lists and mappings inside each other in the JSON: the form needs about fifteen
DEEPEST = 64
_RECORD = struct.Struct("<IQIi")


class Unreadable(ValueError):
    """A file is damaged, or another one than was expected; the message says how."""


def records(data: memoryview, names: Sequence[str]) -> Iterator[tuple[str, Array]]:
    """The parameters of a file by name, windows on its bytes."""
    start = 0
    for name in names:
        check_time()
        try:
            array, start = _record(data, start)
        except (struct.error, ValueError, KeyError, IndexError, OverflowError) as error:
            raise Unreadable(
                f"no record of {name} at byte {start} ({error}): the file is damaged, or belongs to another program "
                "than the one beside it"
            ) from None
        yield name, array
    if start != len(data):
        raise Unreadable(
            f"{len(data) - start} bytes behind the last of the {len(names)} parameters that the program beside it "
            "names: the two do not belong together"
        )


def _record(data: memoryview, start: int) -> tuple[Array, int]:
    """The array of the record at `start`, and where the next one begins."""
    version, levels, inner, length = _RECORD.unpack_from(data, start)
    if version or levels or inner or not 0 < length < 1024:
        raise ValueError(f"version {version} and {inner}, {levels} levels, a message of {length} bytes")
    start += _RECORD.size
    message = Message(data[start : start + length])
    dtype, sizes = TYPES[message.integer(1)], message.integers(2)
    count = math.prod(sizes)
    start, end = start + length, start + length + count * dtype.itemsize
    if min(sizes, default=0) < 0 or not 0 <= count < MOST_SIZE or end > len(data):
        raise ValueError(f"{sizes[:8]} of {dtype} does not fit the file")
    return np.frombuffer(data[start:end], dtype.newbyteorder("<") if dtype.kind != "V" else dtype).reshape(sizes), end


# -- names -------------------------------------------------------------------------------------------------------------
def parameter_names(program: memoryview) -> list[str]:
    """The names of what a `.pdiparams` holds, in its order, of the bytes of its program; Unreadable for others."""
    if bytes(program[:1]) == b"{":
        return sorted(op["A"][NAME] for op in operations(program) if op["#"] == PARAMETER)
    try:
        blocks = Message(program).messages(1)
        return sorted(name for block in blocks for variable in block.messages(3) if (name := _saved(variable)))
    except (ValueError, IndexError) as error:
        raise Unreadable(f"no program of Paddle, or a damaged one ({error})") from None


def _saved(variable: Message) -> str:
    """The name of a variable that is saved; "" for others."""
    kind = next((kind.integer(1) for kind in variable.messages(2)), 0)
    return variable.text(1) if variable.integer(3) and kind not in UNSAVED else ""


def operations(program: memoryview | bytes) -> list[dict[str, Any]]:
    """The operations of a program in JSON (PIR), their forms checked as far as names need."""
    data = bytes(program)
    if _depth(data) > DEEPEST:
        raise Unreadable(f"no program of Paddle: its JSON is over {DEEPEST} deep")
    try:
        found = json.loads(data)
        (region,) = found["program"]["regions"]
        (block,) = region["blocks"]
        if found["base_code"]["magic"] != "pir":
            raise ValueError("its magic word is not pir")
        for op in block["ops"]:
            if not isinstance(op["#"], str):
                raise TypeError("an operation without a name")
            if op["#"] == PARAMETER and not isinstance(op["A"][NAME], str):
                raise TypeError("a parameter without a name")
    except (ValueError, KeyError, TypeError, IndexError, RecursionError) as error:
        raise Unreadable(f"no program of Paddle, or a damaged one ({type(error).__name__}: {error!s:.120})") from None
    return block["ops"]  # type: ignore[no-any-return]


def _depth(data: bytes) -> int:
    """How deep brackets lie inside each other, those in texts counted as well: an upper bound."""
    codes = np.frombuffer(data, np.uint8)
    steps = np.isin(codes, (0x5B, 0x7B)).astype(np.int8) - np.isin(codes, (0x5D, 0x7D)).astype(np.int8)
    return int(np.cumsum(steps, dtype=np.int64).max(initial=0))
