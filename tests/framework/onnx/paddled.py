"""Models of Paddle made by hand, for tests: one list of operations, written as a ProgramDesc or in the JSON of PIR."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

KINDS = {"bool": 0, "int32": 2, "int64": 3, "float16": 4, "float32": 5, "float64": 6}
PIR = {"bool": "t_bool", "int32": "t_i32", "int64": "t_i64", "float16": "t_f16", "float32": "t_f32", "float64": "t_f64"}


# -- protobuf ----------------------------------------------------------------------------------------------------------
def varint(value: int) -> bytes:
    value %= 1 << 64
    return bytes([value]) if value < 128 else bytes([value & 127 | 128]) + varint(value >> 7)


def message(number: int, value: int | float | str | bytes) -> bytes:
    """A field: an integer, a float, a text, an inner message."""
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    data = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(data)) + data


def record(x: np.ndarray) -> bytes:
    """A parameter as `.pdiparams` holds it."""
    kind = message(1, KINDS[x.dtype.name]) + b"".join(message(2, n) for n in x.shape)
    return struct.pack("<IQIi", 0, 0, 0, len(kind)) + kind + x.tobytes()


def _attribute(name: str, value: Any) -> bytes:
    """The kind by the value: bool, int, float, text, lists of ints or floats; {"long": 3}; {"dtype": "int64"}."""
    made = message(1, name)
    if isinstance(value, Mapping):
        ((kind, inner),) = value.items()
        long = message(2, 9) + message(13, inner) if kind == "long" else message(2, 0) + message(3, KINDS[inner])
        return made + long
    if isinstance(value, bool):
        return made + message(2, 6) + message(10, int(value))
    if isinstance(value, int | float | str):
        number = {int: 0, float: 1, str: 2}[type(value)]
        return made + message(2, number) + message(number + 3, value)
    floats = any(isinstance(v, float) for v in value)
    return made + message(2, 4 if floats else 3) + b"".join(message(7 if floats else 6, v) for v in value)


# -- models ------------------------------------------------------------------------------------------------------------
@dataclass
class Paddled:
    """A model under construction. Operations of a ProgramDesc name their inputs; those of PIR have them by position."""

    weights: dict[str, np.ndarray] = field(default_factory=dict)
    feeds: dict[str, tuple[str, Sequence[int]]] = field(default_factory=dict)
    ops: list[tuple[str, Any, Any, dict[str, Any]]] = field(default_factory=list)

    def weight(self, name: str, x: Any) -> str:
        self.weights[name] = np.asarray(x)
        return name

    def feed(self, name: str, shape: Sequence[int], dtype: str = "float32") -> str:
        self.feeds[name] = dtype, shape
        return name

    def op(self, name: str, inputs: Any, outputs: Any, **attributes: Any) -> None:
        self.ops.append((name, inputs, outputs, attributes))

    def params(self) -> bytes:
        return b"".join(record(self.weights[name]) for name in sorted(self.weights))

    # -- ProgramDesc ---------------------------------------------------------------------------------------------------
    def program(self, fetched: Sequence[str]) -> bytes:
        """As `.pdmodel`: `inputs` and `outputs` of operations are {parameter: name or names}."""
        variables = [self._variable(n, x.dtype.name, x.shape, saved=True) for n, x in self.weights.items()]
        variables += [self._variable(n, dtype, shape, saved=False) for n, (dtype, shape) in self.feeds.items()]
        ops = [self._op("feed", {"X": "feed"}, {"Out": n}, {"col": i}) for i, n in enumerate(self.feeds)]
        ops += [self._op(*op) for op in self.ops]
        ops += [self._op("fetch", {"X": n}, {"Out": "fetch"}, {"col": i}) for i, n in enumerate(fetched)]
        block = message(1, 0) + message(2, -1) + b"".join(message(3, v) for v in variables)
        return message(1, block + b"".join(message(4, op) for op in ops)) + message(4, message(1, 2006002))

    def _variable(self, name: str, dtype: str, shape: Sequence[int], *, saved: bool) -> bytes:
        tensor = message(1, KINDS[dtype]) + b"".join(message(2, n) for n in shape)
        return message(1, name) + message(2, message(1, 7) + message(3, message(1, tensor))) + message(3, int(saved))

    def _op(self, kind: str, inputs: Any, outputs: Any, attributes: Mapping[str, Any]) -> bytes:
        made = b""
        for number, side in ((1, inputs), (2, outputs)):
            for name, values in side.items():
                names = [values] if isinstance(values, str) else values
                made += message(number, message(1, name) + b"".join(message(2, v) for v in names))
        return made + message(3, kind) + b"".join(message(4, _attribute(n, v)) for n, v in attributes.items())

    # -- PIR -----------------------------------------------------------------------------------------------------------
    def pir(self, fetched: Sequence[str], types: Mapping[str, tuple[str, Sequence[int]]] | None = None) -> bytes:
        """As JSON: `inputs` are names, "" and lists of names, `outputs` names or one list of them."""
        numbers: dict[Any, int] = {"": 0}
        types = {**{n: (x.dtype.name, x.shape) for n, x in self.weights.items()}, **self.feeds, **(types or {})}

        def kind(name: str) -> dict[str, Any]:
            dtype, shape = types.get(name, ("float32", [-1]))
            return {"#": "0.t_dtensor", "D": [{"#": f"0.{PIR[dtype]}"}, list(shape), "NCHW", [], 0]}

        def made(name: Any) -> dict[str, Any]:
            number = numbers.setdefault(tuple(name) if isinstance(name, list) else name, len(numbers))
            several = isinstance(name, list)
            return {"%": number, "TT": {"#": "0.t_vec", "D": [kind(n) for n in name]} if several else kind(name)}

        ops: list[dict[str, Any]] = [{"#": "p", "A": [0, 1, 1, n], "O": made(n)} for n in self.weights]
        for name, (dtype, shape) in self.feeds.items():
            known = {"name": name, "shape": list(shape), "dtype": {"dtype": dtype}}
            ops.append(_pir("1.data", [], [made(name)], known))
        for op, inputs, outputs, attributes in self.ops:
            for each in inputs:
                if isinstance(each, list):
                    ops.append(_pir("0.combine", [{"%": numbers[n]} for n in each], [made(each)], {}))
            reads = [{"%": numbers[tuple(n) if isinstance(n, list) else n]} for n in inputs]
            ops.append(_pir(f"1.{op}", reads, [made(n) for n in outputs], attributes))
            for each in outputs:
                if isinstance(each, list):
                    ops.append(_pir("0.split", [{"%": numbers[tuple(each)]}], [made(n) for n in each], {}))
        for i, name in enumerate(fetched):
            value = [{"%": numbers[name], "TT": kind(name)}]
            ops.append(_pir("1.fetch", value, [{"%": len(numbers) + i, "TT": kind(name)}], {"name": name, "col": i}))
        region = {"#": "region_0", "blocks": [{"#": "block_0", "args": [], "ops": ops}]}
        return json.dumps({"base_code": {"magic": "pir", "version": 1}, "program": {"regions": [region]}}).encode()

    def save(self, folder: Path, program: bytes) -> Path:
        """Program and weights in a folder; the path of the program."""
        path = folder / ("inference.json" if program[:1] == b"{" else "inference.pdmodel")
        path.write_bytes(program)
        path.with_suffix(".pdiparams").write_bytes(self.params())
        return path


def _pir(name: str, inputs: Any, outputs: Any, attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {"#": name, "A": [{"N": n, "AT": _plain(v)} for n, v in attributes.items()], "I": inputs, "O": outputs}


def _plain(value: Any) -> dict[str, Any]:
    if isinstance(value, Mapping):
        return {"#": "1.a_dtype", "D": value["dtype"]}
    if isinstance(value, list | tuple):
        return {"#": "0.a_array", "D": [_plain(v) for v in value]}
    return {"#": {bool: "0.a_bool", int: "0.a_i32", float: "0.a_f32", str: "0.a_str"}[type(value)], "D": value}
