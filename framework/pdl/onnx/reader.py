"""Reading model files into `Graph`: TensorFlow Lite's and Paddle's by their own readers, ONNX's (with the `onnx`
package) here: weights, external data, functions expanded, order checked.

A file is not trusted: sizes are compared with the bytes of the file before anything is allocated, external data
stays inside the model's folder, and every fault is a UsageError that says where.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import UsageError
from pdl.files import read_bytes
from pdl.limits import check_time
from pdl.onnx.check import DEEPEST
from pdl.onnx.functions import expand
from pdl.onnx.graph import Graph, Node, Port
from pdl.onnx.model import PACKED, Model, bytes_of, order, require_shape, settle, unpacked
from pdl.onnx.paddle import is_paddle, program_in, read_paddle
from pdl.onnx.table.gradient import close_gradients
from pdl.onnx.tflite import is_tflite, read_tflite
from pdl.onnx.values import ELEMENTS, dtype_of, require_room

#: opsets whose ops the table knows
OLDEST, NEWEST = 1, 28
MOST_BYTES = 2**31  # what protobuf reads


def package() -> Any:
    """The `onnx` package; UsageError that says how to get it."""
    try:
        import onnx
    except ImportError as error:
        raise UsageError(f"reading ONNX files needs the package onnx ({error}): pip install 'pdl-core[onnx]'") from None
    return onnx


def read(source: str | Path | bytes) -> Model:
    """The model in a file, or in bytes (then without other files): ONNX, TensorFlow Lite, or Paddle's program, by
    what the file begins with."""
    if isinstance(source, bytes):
        return _read(source, "the given bytes", None)
    path = program_in(Path(source))
    try:
        data = read_bytes(path, MOST_BYTES)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    return _read(data, str(path), path)


def _read(data: bytes, what: str, path: Path | None) -> Model:
    if is_tflite(data):
        return read_tflite(data, what)
    if is_paddle(data):
        return read_paddle(data, what, path)
    return from_proto(_parsed(package(), data, what), None if path is None else path.parent)


def _parsed(onnx: Any, data: bytes, what: str) -> Any:
    from google.protobuf.message import DecodeError  # comes with onnx

    try:
        proto = onnx.ModelProto.FromString(data)
    except (DecodeError, ValueError, RuntimeError) as error:
        raise UsageError(f"{what} is no ONNX model, or a damaged one: {error}") from None
    if not proto.HasField("graph") or not proto.opset_import:
        raise UsageError(f"{what} is no ONNX model: it has no {'opset' if proto.HasField('graph') else 'graph'}")
    return proto


def from_proto(proto: Any, folder: Path | None = None) -> Model:
    """The model of an `onnx.ModelProto`; external data is looked for in `folder`."""
    opsets = _opsets(proto.opset_import)
    version = opsets.get("", NEWEST)
    if not OLDEST <= version <= NEWEST:
        raise UsageError(f"the model uses ONNX opset {version}; pdl reads {OLDEST} to {NEWEST}")
    graph = _Reader(folder).graph(proto.graph, opsets)
    library = {(_domain(f.domain), f.name): f for f in proto.functions}
    expand(graph, library, lambda function: _Reader(folder).function(function, _opsets(function.opset_import)))
    order(graph, set())
    close_gradients(graph)
    settle(graph)
    metadata = {_name(entry.key): _name(entry.value) for entry in proto.metadata_props}
    producer = f"{_name(proto.producer_name)} {_name(proto.producer_version)}".strip()
    return Model(graph, opsets, producer, metadata)


def _domain(name: str) -> str:
    return "" if _name(name) == "ai.onnx" else name


def _name(text: Any) -> str:
    """A name; protobuf hands out bytes where a file holds no UTF-8."""
    if not isinstance(text, str):
        raise UsageError(f"a name in the file is no text: {text[:40]!r}")
    return text


def _opsets(entries: Iterable[Any]) -> dict[str, int]:
    return {_domain(entry.domain): int(entry.version) for entry in entries}


class _Reader:
    """Turns protobuf messages into `Graph` and its parts."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._depth = 0

    def graph(self, proto: Any, opsets: dict[str, int]) -> Graph:
        self._depth += 1
        if self._depth > DEEPEST:
            raise UsageError(f"the model holds graphs inside graphs, over {DEEPEST} deep")
        initialisers = {_name(t.name): self.tensor(t, f"initializer {t.name!r}") for t in proto.initializer}
        for sparse in proto.sparse_initializer:
            initialisers[_name(sparse.values.name)] = self.sparse(sparse)
        nodes = [self.node(n, opsets) for n in proto.node]
        # before IR version 4 every initialiser was listed as an input, too
        inputs = [_port(v) for v in proto.input if v.name not in initialisers]
        self._depth -= 1
        return Graph(_name(proto.name), inputs, [_port(v) for v in proto.output], nodes, initialisers)

    def function(self, proto: Any, opsets: dict[str, int]) -> Graph:
        """The body of a model-local function, as a graph."""
        nodes = [self.node(n, opsets) for n in proto.node]
        inputs, outputs = ([Port(_name(n)) for n in names] for names in (proto.input, proto.output))
        return Graph(_name(proto.name), inputs, outputs, nodes)

    def node(self, proto: Any, opsets: dict[str, int]) -> Node:
        check_time()
        domain = _domain(proto.domain)
        op, name = _name(proto.op_type), _name(proto.name)
        attributes = {_name(a.name): self.attribute(a, opsets, f"{op} {name!r}") for a in proto.attribute}
        inputs, outputs = list(map(_name, proto.input)), list(map(_name, proto.output))
        return Node(op, inputs, outputs, attributes, name, domain, opsets.get(domain, 1))

    def attribute(self, proto: Any, opsets: dict[str, int], where: str) -> Any:
        """A plain value, array, graph, or list of them; a reference to an argument of a function stays one."""
        if proto.ref_attr_name:
            return Reference(_name(proto.ref_attr_name))
        kind = package().AttributeProto.AttributeType
        what = f"attribute {proto.name!r} of {where}"
        read = {
            kind.FLOAT: lambda: float(proto.f),
            kind.INT: lambda: int(proto.i),
            kind.STRING: lambda: _text(proto.s, what),
            kind.TENSOR: lambda: self.tensor(proto.t, what),
            kind.GRAPH: lambda: self.graph(proto.g, opsets),
            kind.SPARSE_TENSOR: lambda: self.sparse(proto.sparse_tensor),
            kind.TYPE_PROTO: lambda: _type_name(proto.tp),
            kind.FLOATS: lambda: [float(v) for v in proto.floats],
            kind.INTS: lambda: [int(v) for v in proto.ints],
            kind.STRINGS: lambda: [_text(v, what) for v in proto.strings],
            kind.TENSORS: lambda: [self.tensor(t, what) for t in proto.tensors],
            kind.GRAPHS: lambda: [self.graph(g, opsets) for g in proto.graphs],
        }.get(proto.type)
        if read is None:
            raise UsageError(f"{what} is of kind {proto.type}, which pdl does not read")
        return read()

    # -- tensors -------------------------------------------------------------------------------------------------------
    def tensor(self, proto: Any, what: str) -> Array:
        """The array of a TensorProto, its size checked against the bytes of the file."""
        dtype = dtype_of(proto.data_type, what)
        name = ELEMENTS[proto.data_type]
        shape = tuple(int(n) for n in proto.dims)
        require_shape(shape, what)
        count = math.prod(shape)
        if proto.data_location == package().TensorProto.EXTERNAL:
            raw = self._external(proto, what, bytes_of(name, dtype, count))
        elif proto.HasField("raw_data"):
            raw = proto.raw_data
        else:
            return _typed(proto, name, dtype, count, what).reshape(shape)
        if len(raw) != bytes_of(name, dtype, count):
            raise UsageError(
                f"{what}: {shape} of {name} needs {bytes_of(name, dtype, count)} bytes, there are {len(raw)}"
            )
        if name == "string":
            raise UsageError(f"{what}: strings stored as raw bytes")
        if name in PACKED:
            return unpacked(np.frombuffer(raw, np.uint8), name, count).reshape(shape)
        return np.frombuffer(raw, dtype.newbyteorder("<") if dtype.kind in "iufc" else dtype).astype(
            dtype, copy=False).reshape(shape)  # fmt: skip

    def _external(self, proto: Any, what: str, nbytes: int) -> Any:
        """The bytes of a tensor in another file of the model's folder, mapped."""
        entries = {e.key: e.value for e in proto.external_data}
        location = entries.get("location", "")
        if self.folder is None:
            raise UsageError(f"{what} lies in another file ({location!r}); give the path of the model")
        folder = self.folder.resolve()
        path = (folder / location.partition("\0")[0]).resolve()
        if not location or "\0" in location or not path.is_relative_to(folder) or not path.is_file():
            raise UsageError(f"{what}: its data file {location!r} is not in the folder of the model, {folder}")
        offset, length = (_number(entries.get(k, default), what) for k, default in (("offset", "0"), ("length", "-1")))
        if length not in (-1, nbytes):
            raise UsageError(f"{what} needs {nbytes} bytes, its entry in {location!r} says {length}")
        if offset < 0 or offset + nbytes > path.stat().st_size:
            raise UsageError(f"{what} ends at byte {offset + nbytes} of {location!r}, which has {path.stat().st_size}")
        return np.memmap(path, np.uint8, "r", offset, (nbytes,)).data if nbytes else b""

    def sparse(self, proto: Any) -> Array:
        """A sparse tensor, made dense."""
        what = f"sparse tensor {proto.values.name!r}"
        values, places = self.tensor(proto.values, what), self.tensor(proto.indices, what)
        shape = tuple(int(n) for n in proto.dims)
        require_room(what, shape, values.itemsize)
        flat = places if places.ndim == 1 else np.ravel_multi_index(tuple(places.T), shape)
        if flat.shape != values.shape or (flat.size and not 0 <= flat.min() <= flat.max() < math.prod(shape)):
            raise UsageError(f"{what}: its indices do not fit its shape {shape}")
        dense = np.zeros(math.prod(shape), values.dtype)
        dense[flat] = values
        return dense.reshape(shape)


@dataclass(frozen=True)
class Reference:
    """Stands in the body of a function for an attribute that its caller gives."""

    name: str


def _port(proto: Any) -> Port:
    """Name, dtype and shape of a ValueInfoProto."""
    name, kind = _name(proto.name), proto.type.WhichOneof("value")
    if kind is None:
        return Port(name)
    if kind not in ("tensor_type", "sparse_tensor_type"):
        return Port(name, kind=kind.removesuffix("_type"))
    info = getattr(proto.type, kind)
    dtype = ELEMENTS.get(info.elem_type)
    if dtype is None:
        raise UsageError(f"{name!r} has the element type {info.elem_type}, which ONNX has not given out")
    return Port(name, dtype, _shape(info) if info.HasField("shape") else None)


def _shape(info: Any) -> tuple[int | str | None, ...]:
    """The sizes of a type: numbers, names, None where the file says nothing (some write -1 or 0 there)."""
    named = [(_name(d.dim_param), d.dim_value) for d in info.shape.dim]
    return tuple(name or (size if size > 0 else None) for name, size in named)


def _type_name(proto: Any) -> str:
    """The element type that an attribute names, such as that of an empty sequence."""
    while proto.WhichOneof("value") in ("sequence_type", "optional_type"):
        proto = getattr(proto, proto.WhichOneof("value")).elem_type
    return ELEMENTS.get(proto.tensor_type.elem_type, "float32")


def _text(data: bytes, what: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        raise UsageError(f"{what} is no UTF-8 text") from None


def _number(text: str, what: str) -> int:
    if not text.removeprefix("-").isdecimal() or not text.isascii() or len(text) > 20:
        raise UsageError(f"{what}: {text[:40]!r} stands where a number of bytes is expected")
    return int(text)


_FIELDS = {
    "float32": "float_data", "complex64": "float_data", "float64": "double_data", "complex128": "double_data",
    "int64": "int64_data", "uint64": "uint64_data", "uint32": "uint64_data", "string": "string_data",
}  # fmt: skip


def _typed(proto: Any, name: str, dtype: Any, count: int, what: str) -> Array:
    """The elements of a tensor that are stored as numbers rather than as raw bytes."""
    entries: Sequence[Any] = getattr(proto, _FIELDS.get(name, "int32_data"))
    if name.startswith("complex"):
        expected = 2 * count
    elif name in PACKED:
        expected = -(-count * PACKED[name] // 8)
    else:
        expected = count
    if len(entries) != expected:
        raise UsageError(f"{what}: {count} elements of {name} expected, there are {len(entries)} entries")
    if name == "string":
        made = np.empty(count, object)
        made[:] = [_text(v, what) for v in entries]
        return made
    if name.startswith("complex"):
        pairs = np.array(entries, np.float64).reshape(-1, 2)
        return (pairs[:, 0] + 1j * pairs[:, 1]).astype(dtype)
    if name in PACKED:
        return unpacked(np.array(entries, np.int64).astype(np.uint8), name, count)
    if dtype.kind in "biu" or name in ("float32", "float64"):
        wide: Any = dtype if name.startswith("float") else np.uint64 if name == "uint64" else np.int64
        return np.array(entries, wide).astype(dtype)
    width: Any = f"u{dtype.itemsize}"  # the bits of float16, bfloat16 and the float8 types, as integers
    return np.array(entries, np.int64).astype(width).view(dtype)
