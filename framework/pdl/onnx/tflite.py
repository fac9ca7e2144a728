"""Reading TensorFlow Lite models (schema.fbs version 3, by `pdl.onnx.flatbuffers`) into the graphs that ONNX has, too.

A node is an operator of the file, in the domain "tflite", with the fields of its options as attributes; its function is
in `pdl.onnx.table`. Arrays lie as in the file, channels last. A quantised tensor becomes what ONNX writes for one: its
bytes, read through DequantizeLinear and made by QuantizeLinear, so ops compute in floats and the passes make of that
ops on bytes. int8 activations are held as uint8 with a zero point 128 higher, for which pdl has kernels; inputs and
outputs of the model keep the dtype of the file.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from pdl.dtype import Array, DType
from pdl.errors import UsageError
from pdl.limits import check_time
from pdl.onnx.flatbuffers import File, Table, elements
from pdl.onnx.graph import Graph, Node, Port
from pdl.onnx.model import MOST_AXES, Model, fitting, order, require_shape, settle, unpacked
from pdl.onnx.tflite_options import OPERATORS, OPTIONS, Option
from pdl.onnx.tflite_sparse import dense
from pdl.onnx.values import dtype_named, require_room

DOMAIN = "tflite"
IDENTIFIER = b"TFL3"
VERSION = 3
#: opset of the nodes of ONNX's own that stand around quantised tensors
ONNX = 21
#: dtypes by their numbers in the schema
TYPES = (
    "float32", "float16", "int32", "uint8", "int64", "string", "bool", "int16", "complex64", "int8", "float64",
    "complex128", "uint64", "resource", "variant", "uint32", "uint16", "int4", "bfloat16", "int2", "uint4",
    "float8_e4m3fn", "float8_e5m2",
)  # fmt: skip
INTEGERS = ("int32", "int64")
#: ops that read the integers of a quantised tensor and not the numbers that these stand for
RAW = ("CAST", "BITCAST")
#: ops whose third input, a bias, is int32 in units of the scales of the other two
PRODUCTS = ("CONV_2D", "DEPTHWISE_CONV_2D", "FULLY_CONNECTED", "CONV_3D", "TRANSPOSE_CONV")
_SAME_CALL = ("serving_default", "")


def is_tflite(data: bytes) -> bool:
    """Whether bytes begin as a TensorFlow Lite model does."""
    return data[4:8] == IDENTIFIER


class Quantisation(NamedTuple):
    """number = (element - zero) scale; both one number, or one a slice along `axis`."""

    scale: Array
    zero: Array
    axis: int


@dataclass
class Stored:
    """A tensor of the file. shape: None where the file does not say; entries of None are dynamic."""

    name: str
    dtype: str
    shape: tuple[int | None, ...] | None
    data: Array | None
    quantisation: Quantisation | None
    variable: bool = False


def read_tflite(data: bytes, what: str) -> Model:
    """The model in the bytes of a .tflite file: its first signature where it has any, else its first graph."""
    if not is_tflite(data):
        raise UsageError(f"{what} is no TensorFlow Lite model: it does not say {IDENTIFIER.decode()} at byte 4")
    try:
        return _read(File(data, what), what)
    except (ValueError, TypeError, IndexError, KeyError, OverflowError) as error:
        raise UsageError(f"{what} is damaged: {type(error).__name__}: {error!s:.200}") from None


def _read(file: File, what: str) -> Model:
    root = file.root()
    version = root.number(0, "I")
    if version != VERSION:
        raise UsageError(f"{what} has version {version} of the schema of TensorFlow Lite; pdl reads {VERSION}")
    graphs, buffers = list(root.tables(2)), list(root.tables(4))
    if not graphs:
        raise UsageError(f"{what} is damaged: it has no graph")
    signature = _signature(list(root.tables(7)))
    index = signature.number(4, "I") if signature else 0
    if index >= len(graphs):
        raise UsageError(f"{what} is damaged: a signature is of graph {index}; there are {len(graphs)}")
    reader = _Reader(file, _operators(root, what), buffers)
    graph = reader.graph(graphs[index], _names(signature, 0), _names(signature, 1))
    order(graph, set())
    settle(graph)
    return Model(graph, {DOMAIN: version}, root.text(3), _metadata(root, buffers))


def _signature(found: Sequence[Table]) -> Table | None:
    """The signature to read: the one that serving asks for, else the first."""
    named = {s.text(2): s for s in found}
    return next((named[key] for key in _SAME_CALL if key in named), found[0] if found else None)


def _names(signature: Table | None, side: int) -> dict[int, str]:
    """The names that a signature gives to tensors of its graph, inputs (0) or outputs (1)."""
    return {} if signature is None else {each.number(1, "I"): each.text(0) for each in signature.tables(side)}


def _operators(root: Table, what: str) -> list[tuple[str, int]]:
    """Name and version of each kind of operator that the file uses."""
    made = []
    for code in root.tables(1):
        number = max(code.number(0, "b"), code.number(3, "i"))  # numbers above 127 are in the second field alone
        if number < 0:
            raise UsageError(f"{what} is damaged: an operator has the number {number}")
        name = OPERATORS[number] if number < len(OPERATORS) else f"operator {number}"
        made.append((code.text(1) if name == "CUSTOM" else name, max(1, code.number(2, "i", 1))))
    return made


def _metadata(root: Table, buffers: Sequence[Table]) -> dict[str, str]:
    """What the file says about itself in texts."""
    found = {}
    for each in root.tables(6):
        name, index = each.text(0), each.number(1, "I")
        data = buffers[index].raw(0) if index < len(buffers) else None
        text = bytes(data).rstrip(b"\0") if data is not None and len(data) <= 1 << 16 else b""
        if text and text.isascii() and text.decode().isprintable():
            found[name] = text.decode()
    return found


# -- one graph ---------------------------------------------------------------------------------------------------------
@dataclass
class _Reader:
    file: File
    operators: list[tuple[str, int]]
    buffers: list[Table]
    tensors: list[Stored] = field(default_factory=list)
    nodes: list[Node] = field(default_factory=list)
    held: dict[str, Array] = field(default_factory=dict)

    def fault(self, text: str) -> UsageError:
        return UsageError(f"{self.file.what} is damaged: {text}")

    def graph(self, table: Table, inputs: Mapping[int, str], outputs: Mapping[int, str]) -> Graph:
        """A graph, with the names of a signature."""
        self.tensors = [self.tensor(each, i) for i, each in enumerate(table.tables(0))]
        self._rename(inputs)
        begins, ends = (self._indices(table.numbers(side, np.int32), "the graph") for side in (1, 2))
        own = [self.tensors[i] for i in begins if i is not None and self.tensors[i].data is None]
        ports = [Port(s.name, s.dtype, s.shape) for s in own]
        for i in ends:  # shapes and places are int64 here; what leaves the graph is cast
            if i is not None and self.tensors[i].dtype in INTEGERS and self.tensors[i].data is None and i not in begins:
                outputs = {i: self.tensors[i].name, **outputs}
                self.tensors[i].name = f"{self.tensors[i].name}/values"
        given = {stored.name for stored in own}
        for stored in self.tensors:
            if stored.variable and stored.name not in given and None not in (stored.shape or ()):
                shape = [n or 0 for n in stored.shape or ()]
                require_room(stored.name, shape, 8)
                self.held[stored.name] = np.zeros(shape, _dtype(stored.dtype))
            elif stored.data is not None:
                self.held[stored.name] = stored.data
        made: dict[str, str] = {}
        for stored in own:
            if _is_quantised(stored):
                self._store(self._float(stored, stored.name), self._kept(stored), stored, made)
        for operator in table.tables(3):
            self.operator(operator, made)
        written = given.union(*(node.outputs for node in self.nodes))
        for stored in self.tensors:  # constants of no elements have no bytes
            if stored.data is None and 0 in (stored.shape or ()) and stored.name not in written:
                self.held[stored.name] = np.zeros([n or 0 for n in stored.shape or ()], _dtype(stored.dtype))
        for stored in own:
            _dtype(stored.dtype)
        taken = {p.name for p in ports}
        results = []
        for i in ends:
            if i is None:
                raise self.fault("an output of the graph is no tensor")
            results.append(self._output(self.tensors[i], outputs.get(i, ""), taken, made))
        return Graph(table.text(4) or "tflite", ports, results, self.nodes, self.held)

    def _rename(self, names: Mapping[int, str]) -> None:
        """Names of their own for all tensors: those of a signature, then those of the file."""
        wished = [names.get(i) or stored.name or f"tensor {i}" for i, stored in enumerate(self.tensors)]
        often = Counter(wished)
        for i, (stored, name) in enumerate(zip(self.tensors, wished, strict=True)):
            stored.name = name if often[name] == 1 or i in names else f"{name}#{i}"
        if len({stored.name for stored in self.tensors}) < len(self.tensors):
            for i, stored in enumerate(self.tensors):
                stored.name = f"{stored.name}#{i}"

    def _output(self, stored: Stored, name: str, taken: set[str], made: dict[str, str]) -> Port:
        """An output of the graph under the name of the signature, or of its tensor."""
        name = name or stored.name
        while name in taken:
            name += "'"
        taken.add(name)
        source = self._value(stored, made, raw=True)
        if stored.dtype in INTEGERS and source != name:
            self.nodes.append(Node("CAST", [source], [name], {"to": stored.dtype}, "", DOMAIN))
        elif source != name:
            self.nodes.append(Node("Identity", [source], [name], {}, "", "", ONNX))
        return Port(name, stored.dtype, stored.shape)

    # -- tensors -------------------------------------------------------------------------------------------------------
    def tensor(self, table: Table, index: int) -> Stored:
        """A tensor, with its numbers where the file holds them."""
        check_time()
        name, number = table.text(3), table.number(1, "b")
        what = f"tensor {name or index!r}"
        if not 0 <= number < len(TYPES):
            raise self.fault(f"{what} has the element type {number}")
        dtype, sizes, signature = TYPES[number], table.numbers(0, np.int32), table.numbers(7, np.int32)
        if len(sizes) > MOST_AXES or (signature and len(signature) != len(sizes)):
            raise self.fault(f"{what} has the shape {sizes[:8]}, {len(sizes)} axes, and the signature {signature[:8]}")
        shape = tuple(n if n >= 0 else None for n in signature or sizes)
        data = self._buffer(table.number(2, "I"), what)
        variable = bool(table.number(5, "?"))
        if data is None:
            known = sizes or table.number(8, "?") or not index
            return Stored(name, dtype, shape if known else None, None, self._quantisation(table, what, sizes), variable)
        if dtype in ("resource", "variant"):
            raise UsageError(f"{what} is a {dtype}, which pdl does not read")
        sparse = table.table(6)
        if sparse is not None:
            array = self._dense(sparse, data, dtype, tuple(sizes), what)
        else:
            array = self._array(data, dtype, tuple(sizes), what)
        return Stored(name, "int8" if dtype == "int4" else dtype, tuple(sizes), array,
                      self._quantisation(table, what, sizes))  # fmt: skip

    def _buffer(self, index: int, what: str) -> memoryview | None:
        """The bytes of a buffer; None for the empty one, which tensors have that are computed."""
        if index >= len(self.buffers):
            raise self.fault(f"{what} is in buffer {index}; there are {len(self.buffers)}")
        buffer = self.buffers[index]
        start, size = buffer.number(1, "Q"), buffer.number(2, "Q")
        if start > 1:  # behind the tables: a file of over 2 GiB
            self.file.require(start, size)
            return self.file.data[start : start + size]
        return buffer.raw(0) or None

    def _array(self, data: memoryview, dtype: str, shape: tuple[int, ...], what: str) -> Array:
        if dtype == "string":
            return self._strings(data, shape, what)
        if dtype in ("int4", "uint4", "int2"):
            found = unpacked(np.frombuffer(data, np.uint8), dtype, fitting(shape, dtype, len(data), what))
            return found.astype(np.uint8 if dtype == "uint4" else np.int8).reshape(shape)
        fitting(shape, dtype, len(data), what)
        return elements(data, _dtype(dtype), shape)

    def _dense(self, sparse: Table, data: memoryview, dtype: str, shape: tuple[int, ...], what: str) -> Array:
        kind = _dtype(dtype)
        if kind.kind not in "biuf" or len(data) % kind.itemsize:
            raise UsageError(f"{what} is stored sparse, as {dtype}, in {len(data)} bytes, which pdl does not read")
        require_shape(shape, what)
        return dense(sparse, elements(data, kind, (-1,)), shape, what)

    def _strings(self, data: memoryview, shape: tuple[int, ...], what: str) -> Array:
        """Texts: their number, where each begins and the last ends, and all of them."""
        if len(data) < 4:
            raise self.fault(f"{what} has {len(data)} bytes of texts")
        count = int(np.frombuffer(data, "<i4", 1)[0])
        if count != math.prod(shape) or not 0 <= count <= len(data) // 4 - 2:
            raise self.fault(f"{what} holds {count} texts; its shape is {shape}")
        ends = np.frombuffer(data, "<i4", count + 1, 4)
        if count and (ends[0] < 0 or (np.diff(ends) < 0).any() or ends[-1] > len(data)):
            raise self.fault(f"{what}: its texts do not lie one behind the other")
        made = np.empty(count, object)
        made[:] = [str(data[a:b], "utf-8", "replace") for a, b in itertools.pairwise(ends.tolist())]
        return made.reshape(shape)

    def _quantisation(self, table: Table, what: str, shape: Sequence[int]) -> Quantisation | None:
        found = table.table(4)
        scales = found.numbers(2, np.float32) if found else []
        if found is None or not scales:
            return None
        if found.number(4, "B"):
            raise UsageError(f"{what} is quantised in a way of its own or in blocks, which pdl does not read")
        zeros, axis = found.numbers(3, np.int64), found.number(6, "i")
        zeros = zeros if len(zeros) == len(scales) else zeros * len(scales) if len(zeros) == 1 else [0] * len(scales)
        if not all(s > 0 and math.isfinite(s) for s in scales):
            raise self.fault(f"{what} has a scale that is no positive number")
        if len(scales) == 1:
            return Quantisation(np.array(scales[0], np.float32), np.array(zeros[0], np.int64), 0)
        if not 0 <= axis < len(shape) or shape[axis] != len(scales):
            raise self.fault(f"{what} has {len(scales)} scales along axis {axis} of {list(shape)[:8]}")
        return Quantisation(np.array(scales, np.float32), np.array(zeros, np.int64), axis)

    # -- nodes ---------------------------------------------------------------------------------------------------------
    def operator(self, table: Table, made: dict[str, str]) -> None:
        """An operator, with what reads and makes its quantised tensors."""
        index = table.number(0, "I")
        if index >= len(self.operators):
            raise self.fault(f"an operator is of kind {index}; there are {len(self.operators)}")
        op, version = self.operators[index]
        inputs, outputs = (self._indices(table.numbers(side, np.int32), op) for side in (1, 2))
        reads = [self._read(op, place, i, made) for place, i in enumerate(inputs)]
        ends = [None if i is None else self.tensors[i] for i in outputs]
        attributes = self._attributes(op, table)
        if op in RAW and ends and ends[0] is not None:
            attributes["to"] = ends[0].dtype
        written = [self._written(stored) for stored in ends]
        label = next((stored.name for stored in ends if stored is not None), "")
        self.nodes.append(Node(op, reads, written, attributes, label, DOMAIN, version))
        for stored, name in zip(ends, written, strict=True):
            if stored is not None and _is_quantised(stored):
                self._store(name, self._kept(stored), stored, made)

    def _indices(self, indices: Iterable[int], what: str) -> list[int | None]:
        """Indices of tensors; None for those that are left out."""
        found = list(indices)
        if wrong := [i for i in found if not -1 <= i < len(self.tensors)]:
            raise self.fault(f"{what} refers to tensor {wrong[0]}; there are {len(self.tensors)}")
        return [i if i >= 0 else None for i in found]

    def _attributes(self, op: str, table: Table) -> dict[str, Any]:
        """The options of an operator by name."""
        wanted = OPTIONS.get(op)
        if wanted is None:
            return {}
        number, found = table.number(3, "B"), table.table(4)
        if found is not None and number != wanted.number:
            raise self.fault(f"{op} has the options of another operator, number {number}")
        return {option.name: self._option(op, option, found) for option in wanted.options}

    def _option(self, op: str, option: Option, table: Table | None) -> Any:
        if option.kind == "ints":
            return table.numbers(option.field, np.int32) if table else []
        value = table.number(option.field, option.kind, option.default) if table else option.default
        if option.names is None:
            return value
        if not 0 <= value < len(option.names):
            raise self.fault(f"{op}: its {option.name} is number {value}; there are {', '.join(option.names)}")
        return option.names[value]

    # -- quantised tensors ---------------------------------------------------------------------------------------------
    def _read(self, op: str, place: int, index: int | None, made: dict[str, str]) -> str:
        """The name under which an operator reads a tensor."""
        if index is None:
            return ""
        stored = self.tensors[index]
        bias = stored.data is not None and stored.dtype in INTEGERS and op in PRODUCTS and place == 2
        if bias and stored.quantisation is not None:
            return made.get(stored.name) or self._dequantised(stored, stored.name, made)
        return self._value(stored, made, raw=op in RAW)

    def _value(self, stored: Stored, made: dict[str, str], *, raw: bool) -> str:
        """A tensor's numbers, or (raw) its elements as the file has them."""
        if not _is_quantised(stored):
            return stored.name
        if stored.data is not None:
            return stored.name if raw else made.get(stored.name) or self._dequantised(stored, stored.name, made)
        if not raw:
            return made.get(stored.name, stored.name)
        q = stored.quantisation
        assert q is not None
        name = f"{stored.name}/elements"
        if name not in made:
            made[name] = name
            scale, zero = self._parameters(stored, q.scale, q.zero, _dtype(stored.dtype), "own")
            source = made.get(stored.name, stored.name)
            self.nodes.append(Node("QuantizeLinear", [source, scale, zero], [name], {}, stored.name, "", ONNX))
        return name

    def _dequantised(self, stored: Stored, source: str, made: dict[str, str]) -> str:
        """The numbers of a constant."""
        q, name = stored.quantisation, f"{stored.name}/numbers"
        assert q is not None
        assert stored.data is not None
        array = stored.data
        if stored.dtype == "uint8" and np.all(q.zero == 128):  # the old way of writing int8 around 0
            array, q = (array.astype(np.int16) - 128).astype(np.int8), q._replace(zero=q.zero - 128)
        elif array.dtype == np.int64:
            array = self._narrow(array, stored.name)
        if array is not stored.data:
            source = f"{source}/{array.dtype.name}"
            self.held[source] = array
        scale, zero = self._parameters(stored, q.scale, q.zero, array.dtype, "")
        self.nodes.append(Node("DequantizeLinear", [source, scale, zero], [name], {"axis": q.axis}, stored.name, "",
                               ONNX))  # fmt: skip
        made[stored.name] = name
        return name

    def _narrow(self, x: Array, name: str) -> Array:
        """A bias of int64, of activations of 16 bits, as int32."""
        info = np.iinfo(np.int32)
        if x.size and not info.min <= x.min() <= x.max() <= info.max:
            raise UsageError(f"tensor {name!r} is a bias beyond int32, which pdl does not read")
        return x.astype(np.int32)

    def _written(self, stored: Stored | None) -> str:
        """The name under which an operator makes a tensor."""
        if stored is None:
            return ""
        return f"{stored.name}/float" if _is_quantised(stored) else stored.name

    def _float(self, stored: Stored, source: str) -> str:
        """The numbers of an input of the graph."""
        q = stored.quantisation
        assert q is not None
        scale, zero = self._parameters(stored, q.scale, q.zero, _dtype(stored.dtype), "own")
        name = f"{stored.name}/float"
        self.nodes.append(Node("DequantizeLinear", [source, scale, zero], [name], {}, stored.name, "", ONNX))
        return name

    def _kept(self, stored: Stored) -> tuple[DType, Array]:
        """The dtype and the zero point that a computed tensor has here: uint8 for int8."""
        q = stored.quantisation
        assert q is not None
        return (np.dtype(np.uint8), q.zero + 128) if stored.dtype == "int8" else (_dtype(stored.dtype), q.zero)

    def _store(self, source: str, kept: tuple[DType, Array], stored: Stored, made: dict[str, str]) -> None:
        """A computed tensor rounded as the file says: its numbers have the name that `made` tells."""
        q = stored.quantisation
        assert q is not None
        if q.scale.ndim:
            raise UsageError(
                f"tensor {stored.name!r} is computed and has a scale for each slice, which pdl does not do"
            )
        scale, zero = self._parameters(stored, q.scale, kept[1], kept[0], "kept")
        stored_name, numbers = f"{stored.name}/bytes", f"{stored.name}/numbers"
        self.nodes += [
            Node("QuantizeLinear", [source, scale, zero], [stored_name], {}, stored.name, "", ONNX),
            Node("DequantizeLinear", [stored_name, scale, zero], [numbers], {}, stored.name, "", ONNX),
        ]
        made[stored.name] = numbers

    def _parameters(self, stored: Stored, scale: Array, zero: Array, dtype: DType, which: str) -> tuple[str, str]:
        info = np.iinfo(dtype)
        if np.any(zero < info.min) or np.any(zero > info.max):
            raise self.fault(f"tensor {stored.name!r} has a zero point outside {dtype.name}")
        names = f"{stored.name}/scale", f"{stored.name}/zero{f' {which}' if which else ''}"
        self.held.setdefault(names[0], scale)
        self.held.setdefault(names[1], zero.astype(dtype))
        return names


def _is_quantised(stored: Stored) -> bool:
    """Whether the elements of a tensor stand for other numbers (a bias is looked at by its op)."""
    return stored.quantisation is not None and stored.dtype in ("int8", "uint8", "int16", "uint16")


def _dtype(name: str) -> DType:
    """The dtype of an element type by name."""
    if name in ("resource", "variant"):
        raise UsageError(f"a tensor is a {name}, which pdl does not read")
    return dtype_named(name)
