"""TensorFlow Lite models made by hand, for tests: FlatBuffers written field by field."""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pdl.onnx.tflite import TYPES
from pdl.onnx.tflite_options import OPERATORS, OPTIONS


# -- FlatBuffers -------------------------------------------------------------------------------------------------------
def flat(fields: Mapping[int, Any], identifier: bytes) -> bytes:
    """The file whose root is a table of these fields by number: ("i", 3), texts, bytes, arrays, tables, lists."""
    data = bytearray(8)
    data[4:8] = identifier
    data[:4] = struct.pack("<I", _table(data, fields))
    return bytes(data)


def _align(data: bytearray, size: int, behind: int = 0) -> None:
    data.extend(b"\0" * (-(len(data) + behind) % size))


def _table(data: bytearray, fields: Mapping[int, Any]) -> int:
    count = max(fields, default=-1) + 1
    _align(data, 8, 4 + 2 * count)
    begin = len(data)
    places = {number: 8 + 8 * i for i, number in enumerate(fields)}
    data += struct.pack(f"<HH{count}H", 4 + 2 * count, 8 + 8 * len(fields), *(places.get(i, 0) for i in range(count)))
    at = len(data)
    data += struct.pack("<ii", at - begin, 0) + bytes(8 * len(fields))
    for number, value in fields.items():
        place = at + places[number]
        if isinstance(value, tuple):
            made = struct.pack(f"<{value[0]}", value[1])
            data[place : place + len(made)] = made
        else:
            data[place : place + 4] = struct.pack("<I", _object(data, value) - place)
    return at


def _object(data: bytearray, value: Any) -> int:
    if isinstance(value, Mapping):
        return _table(data, value)
    if isinstance(value, list):
        _align(data, 4)
        at = len(data)
        data += struct.pack("<I", len(value)) + bytes(4 * len(value))
        places: dict[int, int] = {}  # what is in a list twice lies there once
        for i, each in enumerate(value):
            place = at + 4 + 4 * i
            places[id(each)] = places.get(id(each)) or _object(data, each)
            data[place : place + 4] = struct.pack("<I", places[id(each)] - place)
        return at
    raw = value.encode() if isinstance(value, str) else value if isinstance(value, bytes) else value.tobytes()
    _align(data, 16, 4)
    at = len(data)
    data += struct.pack("<I", len(raw) if isinstance(value, str | bytes) else value.size) + raw + b"\0"
    return at


# -- models ------------------------------------------------------------------------------------------------------------
@dataclass
class Lite:
    """A model under construction: tensors are added and named by their numbers."""

    tensors: list[dict[int, Any]] = field(default_factory=list)
    buffers: list[dict[int, Any]] = field(default_factory=lambda: [{}])
    operators: list[dict[int, Any]] = field(default_factory=list)
    codes: list[tuple[str, int]] = field(default_factory=list)

    def tensor(
        self, name: str, shape: Sequence[int], dtype: str = "float32", data: np.ndarray | None = None, *,
        scale: Any = None, zero: Any = 0, axis: int = 0, signature: Sequence[int] | None = None,
    ) -> int:  # fmt: skip
        """A tensor; constants have `data`, quantised ones a scale and a zero point, or one a slice along `axis`."""
        made = {0: np.array(shape, np.int32), 1: ("b", TYPES.index(dtype)), 3: name}
        if data is not None:
            self.buffers.append({0: np.ascontiguousarray(data).tobytes()})
            made[2] = ("I", len(self.buffers) - 1)
        if scale is not None:
            scales = np.atleast_1d(np.asarray(scale, np.float32))
            zeros = np.broadcast_to(np.asarray(zero, np.int64), scales.shape).copy()
            made[4] = {2: scales, 3: zeros, 6: ("i", axis)}
        if signature is not None:
            made[7] = np.array(signature, np.int32)
        self.tensors.append(made)
        return len(self.tensors) - 1

    def constant(self, name: str, data: Any, **how: Any) -> int:
        """A constant of an array's dtype."""
        data = np.asarray(data)
        return self.tensor(name, data.shape, data.dtype.name, data, **how)

    def op(self, name: str, inputs: Sequence[int], outputs: Sequence[int], version: int = 1, **options: Any) -> None:
        """An operator; its options by name, enumerations by the names of their values."""
        if (name, version) not in self.codes:
            self.codes.append((name, version))
        made: dict[int, Any] = {
            0: ("I", self.codes.index((name, version))), 1: np.array(inputs, np.int32), 2: np.array(outputs, np.int32),
        }  # fmt: skip
        known = OPTIONS.get(name)
        if known is not None and options:
            table = {}
            for option in known.options:
                if option.name in options:
                    value = options.pop(option.name)
                    number = option.names.index(value) if option.names else value
                    table[option.field] = np.array(value, np.int32) if option.kind == "ints" else (option.kind, number)
            made |= {3: ("B", known.number), 4: table}
        assert not options, f"{name} has no option {', '.join(options)}"
        self.operators.append(made)

    def file(self, inputs: Sequence[int], outputs: Sequence[int], signature: Mapping[str, Any] | None = None) -> bytes:
        """The bytes of the model; a signature is {"inputs": {name: number}, "outputs": ...}."""
        codes = [
            {0: ("b", min(OPERATORS.index(name), 127)), 2: ("i", version), 3: ("i", OPERATORS.index(name))}
            if name in OPERATORS else {0: ("b", 32), 1: name, 2: ("i", version), 3: ("i", 32)}
            for name, version in self.codes
        ]  # fmt: skip
        ends = np.array(inputs, np.int32), np.array(outputs, np.int32)
        graph = {0: self.tensors, 1: ends[0], 2: ends[1], 3: self.operators, 4: "main"}
        root: dict[int, Any] = {0: ("I", 3), 1: codes, 2: [graph], 3: "made by hand", 4: self.buffers}
        if signature is not None:
            sides = ([{0: n, 1: ("I", i)} for n, i in signature[side].items()] for side in ("inputs", "outputs"))
            root[7] = [dict(enumerate(sides)) | {2: "serving_default", 4: ("I", 0)}]
        return flat(root, b"TFL3")
