"""Tensors of the Open Inference Protocol (KServe v2): JSON, and binary data behind JSON; checked against the model.

Everything is checked before an array is made: names, datatypes, shapes against those of the model, and the size of the
data against the shape. Data without a type of its own (`BYTES`) is taken by no program.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

try:
    import orjson
except ImportError:  # the standard library reads and writes the same, in more time
    orjson = None  # type: ignore[assignment]

from pdl.dims import Dim
from pdl.dtype import Array
from pdl.errors import listed
from pdl.runtime.session import Port
from pdl.serving.errors import Refused, bad

DTYPES: dict[str, np.dtype[Any]] = {
    "BOOL": np.dtype(np.bool_), "UINT8": np.dtype(np.uint8), "UINT16": np.dtype(np.uint16),
    "UINT32": np.dtype(np.uint32), "UINT64": np.dtype(np.uint64), "INT8": np.dtype(np.int8),
    "INT16": np.dtype(np.int16), "INT32": np.dtype(np.int32), "INT64": np.dtype(np.int64),
    "FP16": np.dtype(np.float16), "FP32": np.dtype(np.float32), "FP64": np.dtype(np.float64),
    "BF16": np.dtype(ml_dtypes.bfloat16),
}  # fmt: skip
NAMES = {dtype: name for name, dtype in DTYPES.items()}
_PACKED = {DTYPES["FP32"]: "f", DTYPES["FP64"]: "d"}  # `struct` takes a flat list in half of NumPy's time
_HALVES = (DTYPES["BF16"], DTYPES["FP16"])
MOST_AXES, MOST_PORTS, MOST_ELEMENTS = 16, 64, 1 << 28
MANY = 512
HEADER = b"inference-header-content-length"


def datatype(port: Port) -> str:
    """The name of a port's dtype in the protocol; FP32 where it depends on values."""
    return "FP32" if port.dtype is None else NAMES.get(np.dtype(port.dtype), str(port.dtype))


def metadata(ports: Sequence[Port]) -> list[dict[str, Any]]:
    """Ports for `GET /v2/models/NAME`: sizes that may vary are -1."""
    return [
        {
            "name": port.name,
            "datatype": datatype(port),
            "shape": [-1] if port.shape is None else [-1 if isinstance(n, Dim) else int(n) for n in port.shape],
        }
        for port in ports
    ]


def checked_shape(port: Port, name: str, shape: Any) -> tuple[int, ...]:
    """The shape that a request says an input has, held to the model's."""
    good = type(shape) is list and len(shape) <= MOST_AXES
    for n in shape if good else ():
        if type(n) is not int or n < 1:
            good = False
    if not good:
        raise bad(f"input {name!r}: shape is {shape!r:.80}, expected a list of whole numbers of at least 1")
    if math.prod(shape) > MOST_ELEMENTS:
        raise bad(f"input {name!r}: shape {shape} has more than {MOST_ELEMENTS:,} elements")
    wanted = port.shape
    if wanted is not None:
        fits = len(shape) == len(wanted)
        for n, w in zip(shape, wanted, strict=False):
            if n != w and not isinstance(w, Dim):
                fits = False
        if not fits:
            raise bad(f"input {name!r}: shape {shape}, the model takes {port}")
    return tuple(shape)


def from_data(port: Port, name: str, dtype: np.dtype[Any], shape: tuple[int, ...], data: Any) -> Array:
    """An array of the numbers of JSON, flat or nested."""
    count = math.prod(shape)
    if dtype in _PACKED and type(data) is list and len(data) == count:
        try:
            return np.frombuffer(struct.pack(f"<{count}{_PACKED[dtype]}", *data), dtype).reshape(shape)
        except (struct.error, OverflowError):
            pass  # nested, or no numbers of this dtype
    try:
        with np.errstate(over="raise"):
            x = np.array(data, dtype) if dtype.kind in "fVb" else _whole(data, dtype)
    except (ValueError, TypeError, ArithmeticError, RecursionError) as error:
        raise bad(f"input {name!r}: data is not {NAMES[dtype]} of shape {list(shape)} ({str(error)[:100]})") from None
    if x.size != math.prod(shape) or (x.ndim > 1 and x.shape != shape):
        raise bad(f"input {name!r}: data has shape {list(x.shape)}, shape says {list(shape)}")
    return x.reshape(shape)


def _whole(data: Any, dtype: np.dtype[Any]) -> Array:
    x = np.asarray(data)
    if x.dtype.kind not in "iub":
        raise ValueError("expected whole numbers")
    made = x.astype(dtype)
    if not np.array_equal(made, x):
        raise ValueError("a number is out of range")
    return made


def from_bytes(name: str, dtype: np.dtype[Any], shape: tuple[int, ...], data: memoryview | bytes) -> Array:
    """An array of binary data, little-endian, without a copy where it lies well."""
    size = math.prod(shape) * dtype.itemsize
    if len(data) != size:
        raise bad(f"input {name!r}: {len(data)} bytes of data, shape {list(shape)} of {NAMES[dtype]} has {size}")
    x = np.frombuffer(data, dtype).reshape(shape)
    if dtype.kind == "b" and x.size and np.frombuffer(data, np.uint8).max() > 1:
        raise bad(f"input {name!r}: bytes of BOOL are 0 or 1")
    return x if x.flags.aligned else x.copy()


def checked_dtype(port: Port, name: str, text: Any) -> np.dtype[Any]:
    """The dtype that a request says an input has, which is the model's."""
    found = DTYPES.get(text) if isinstance(text, str) else None
    if found is None:
        raise bad(f"input {name!r}: datatype {text!r:.40}; expected one of {', '.join(DTYPES)}")
    if found is not port.dtype and port.dtype is not None and found != np.dtype(port.dtype):
        raise bad(f"input {name!r}: datatype {text}, the model takes {datatype(port)}")
    return found


def port_of(ports: Sequence[Port], name: Any, given: Sequence[str]) -> Port:
    """The input of this name; Refused where there is none, or it has been given."""
    for port in ports:
        if port.name == name:
            if name in given:
                raise bad(f"input {name!r} is given twice")
            return port
    raise bad(f"the model has no input {name!r:.60}; it takes {', '.join(map(str, ports))}")


def require_all(ports: Sequence[Port], given: Mapping[str, Array]) -> None:
    """Refused where an input is missing."""
    if len(given) != len(ports):
        raise bad(f"inputs are missing: {listed([str(port) for port in ports if port.name not in given])}")


class Wanted:
    """Which outputs a request asks for, and which of them as binary data."""

    __slots__ = ("all_binary", "binary", "names")

    def __init__(self, outputs: Any, all_binary: bool, ports: Sequence[Port]) -> None:
        self.names: list[str] | None = None
        self.all_binary = all_binary
        self.binary: dict[str, bool] = {}
        if outputs is None:
            return
        known = [port.name for port in ports]
        if not isinstance(outputs, list) or len(outputs) > MOST_PORTS:
            raise bad("outputs must be a list of objects with a name")
        names = []
        for each in outputs:
            name = each.get("name") if isinstance(each, dict) else None
            if not isinstance(name, str) or (known and name not in known) or name in names:
                raise bad(f"outputs: {name!r:.60} is no output of this model; it has {listed(known)}, each once")
            parameters = _parameters(each.get("parameters"))
            if "classification" in parameters:
                raise bad("outputs: classification is not offered; POST /predict gives labels")
            names.append(name)
            self.binary[name] = bool(parameters.get("binary_data", all_binary))
        self.names = names or None


class Request:
    """A request for inference, read and checked: arrays by name, what is asked for."""

    __slots__ = ("arrays", "id", "seconds", "wanted")

    def __init__(self, arrays: dict[str, Array], wanted: Wanted, id: str, seconds: float | None) -> None:
        self.arrays, self.wanted, self.id, self.seconds = arrays, wanted, id, seconds


def parse(body: bytes | bytearray, header: int | None, inputs: Sequence[Port], outputs: Sequence[Port]) -> Request:
    """A request for inference in a body of HTTP.

    header   bytes of JSON, behind which binary data comes; None: all is JSON
    """
    if header is not None and not 0 <= header <= len(body):
        raise bad(f"Inference-Header-Content-Length: {header}, the body has {len(body)} bytes")
    said = loads(body if header is None else body[:header])
    given = said.get("inputs") if isinstance(said, dict) else None
    if not isinstance(given, list) or not 1 <= len(given) <= MOST_PORTS:
        raise bad('expected an object with "inputs": [{"name", "shape", "datatype", "data"}, ...]')
    rest = memoryview(body)[header:] if header is not None else memoryview(b"")
    at = 0
    arrays: dict[str, Array] = {}
    for each in given:
        if not isinstance(each, dict):
            raise bad("each of the inputs is an object with name, shape, datatype and data")
        name = each.get("name")
        port = port_of(inputs, name, arrays)  # type: ignore[arg-type]
        dtype = checked_dtype(port, port.name, each.get("datatype"))
        shape = checked_shape(port, port.name, each.get("shape"))
        parameters = each.get("parameters")
        size = None if parameters is None else _parameters(parameters).get("binary_data_size")
        if size is not None:
            if type(size) is not int or not 0 <= size <= len(rest) - at:
                raise bad(f"input {port.name!r}: binary_data_size is {size!r:.40}, {len(rest) - at} bytes are there")
            arrays[port.name] = from_bytes(port.name, dtype, shape, rest[at : at + size])
            at += size
        elif "data" not in each:
            raise bad(f"input {port.name!r} has no data")
        else:
            arrays[port.name] = from_data(port, port.name, dtype, shape, each["data"])
    if at != len(rest):
        raise bad(f"{len(rest) - at} bytes are behind the data of all inputs")
    require_all(inputs, arrays)
    parameters = said.get("parameters")
    options = {} if parameters is None else _parameters(parameters)
    wanted = Wanted(said.get("outputs"), bool(options.get("binary_data_output", False)), outputs)
    id = said.get("id", "")
    if not isinstance(id, str) or len(id) > 256:
        raise bad("id must be a text of at most 256 characters")
    return Request(arrays, wanted, id, seconds_in(options))


def seconds_in(options: Mapping[str, Any]) -> float | None:
    """The parameter timeout, in microseconds as Triton has it; None or 0: that of the server."""
    given = options.get("timeout", 0)
    if type(given) is str and given.isdecimal():
        given = int(given)
    if type(given) is not int or given < 0:
        raise bad(f"parameters: timeout is {given!r:.40}, expected microseconds")
    return given / 1e6 or None


def loads(body: bytes | bytearray) -> Any:
    """A value of JSON."""
    if orjson is not None:
        try:
            return orjson.loads(body)
        except ValueError:
            pass  # `json` takes NaN, too, and says what is wrong
    try:
        return json.loads(body)
    except (ValueError, RecursionError) as error:
        raise bad(f"the body is no JSON: {str(error)[:100]}") from None


def dumps(value: Any) -> bytes:
    """JSON without blanks; arrays are those that `plain` gives."""
    if orjson is not None:
        try:
            return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)
        except TypeError:
            pass  # half a surrogate in a text, which `json` writes as it was
    return json.dumps(value, separators=(",", ":"), allow_nan=False, default=_listed).encode()


def _listed(y: Array) -> list[Any]:
    """The numbers of an array; those that JSON lacks (NaN, infinity) are null."""
    made: list[Any] = y.tolist()
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        return [value if math.isfinite(value) else None for value in made]
    return made


def _parameters(value: Any) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise bad("parameters must be an object")
    return value


def response(
    name: str, version: str, id: str, outputs: Mapping[str, Array], wanted: Wanted
) -> tuple[bytes, int | None]:
    """The body that answers, and the bytes of JSON in it where binary data follows."""
    made: list[dict[str, Any]] = []
    parts: list[bytes] = []
    for key in wanted.names or outputs:
        y = outputs[key]
        if y.dtype not in NAMES:
            raise Refused(500, "internal", f"output {key!r} is {y.dtype}, which the protocol does not have")
        entry: dict[str, Any] = {"name": key, "datatype": NAMES[y.dtype], "shape": list(y.shape)}
        if wanted.binary.get(key, wanted.all_binary):
            data = y.tobytes()
            entry["parameters"] = {"binary_data_size": len(data)}
            parts.append(data)
        else:
            entry["data"] = plain(y)
        made.append(entry)
    said: dict[str, Any] = {"model_name": name, "model_version": version}
    if id:
        said["id"] = id
    said["outputs"] = made
    text = dumps(said)
    return (b"".join([text, *parts]), len(text)) if parts else (text, None)


def plain(y: Array) -> Array:
    """An array as `dumps` takes it: flat, its floats of 32 or 64 bits."""
    return (y.astype(np.float32) if y.dtype in _HALVES else y).ravel()


__all__ = ["DTYPES", "NAMES", "Request", "Wanted", "metadata", "parse", "response"]
