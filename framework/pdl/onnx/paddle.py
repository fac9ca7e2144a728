"""Reading Paddle's inference models into the graphs that ONNX has, too: a program, `.pdmodel` (a ProgramDesc,
framework.proto) or the JSON of Paddle 3 (PIR), and the weights beside it, `.pdiparams`.

A node is an operation of the domain "paddle" as PIR has it: its inputs by position, what decides shapes among them. The
older form names inputs and keeps such values as attributes; `pdl.onnx.paddle_legacy` says how each of its operations is
written here. Their functions are in `pdl.onnx.table`.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import UsageError
from pdl.files import map_file
from pdl.limits import check_time
from pdl.onnx.graph import Graph, Node, Port
from pdl.onnx.model import Model, order, require_shape, settle
from pdl.onnx.paddle_legacy import FUSED, LEGACY, Given, Legacy, attribute
from pdl.onnx.paddle_params import (
    JSON,
    PARAMETER,
    PARAMETERS,
    PROGRAM,
    TYPES,
    Unreadable,
    operations,
    parameter_names,
    records,
)
from pdl.onnx.protobuf import Message

DOMAIN = "paddle"
#: versions of the JSON that are read; a program in protobuf says the version of Paddle, which is not looked at
VERSIONS = range(6)
#: dtypes by their names in PIR's types
_DTYPES = {
    "t_bool": "bool", "t_f32": "float32", "t_f64": "float64", "t_f16": "float16", "t_bf16": "bfloat16",
    "t_i8": "int8", "t_i16": "int16", "t_i32": "int32", "t_i64": "int64", "t_ui8": "uint8",
}  # fmt: skip
#: attributes of PIR that only training, devices or profilers read
_UNREAD = frozenset({
    "struct_name", "place", "infer_flags", "is_test", "use_global_stats", "trainable_statistics", "momentum", "sparse",
    "stop_gradient", "op_callstack", "op_role", "op_role_var", "op_namescope", "op_device", "with_quant_attr", "seed",
    "fix_seed", "name", "col", "is_new_data_format", "rounding_axis", "execution_stream", "force_record_event",
    "event_to_record", "events_to_wait", "use_cudnn", "use_quantizer", "mkldnn_data_type",
})  # fmt: skip
_PROGRAMS = ("inference.json", "inference.pdmodel", "model.json", "model.pdmodel", "__model__")
_DENSE, _VECTOR = "t_dtensor", "t_vec"
MOST_NAMES = 1_000_000


def is_paddle(data: bytes) -> bool:
    """Whether bytes begin as a program of Paddle does: with a block, which ONNX models do not, or as JSON."""
    return data[:1] in (b"\x0a", b"{")


def program_in(path: Path) -> Path:
    """The program of a folder with a model of Paddle, or beside its weights; other paths as they are."""
    if path.is_dir():
        found = [path / name for name in _PROGRAMS if (path / name).is_file()]
        if not found:
            raise UsageError(f"{path} is a folder without a model of Paddle: it has none of {', '.join(_PROGRAMS)}")
        return found[0]
    if path.suffix == PARAMETERS:
        beside = [path.with_suffix(end) for end in (JSON, PROGRAM) if path.with_suffix(end).is_file()]
        if not beside:
            raise UsageError(f"{path} holds weights of Paddle; its program, {path.stem}{PROGRAM} or {path.stem}{JSON}, "
                             "is not beside it")  # fmt: skip
        return beside[0]
    return path


def read_paddle(data: bytes, what: str, path: Path | None) -> Model:
    """The model of a program in bytes; `path` of the program says where its weights are."""
    try:
        names = parameter_names(memoryview(data))
        if len(set(names)) < len(names):
            raise Unreadable("two parameters have one name")
        weights = _weights(path, names, what)
        if data[:1] == b"{":
            graph, versions = _Json(weights).graph(operations(data)), {DOMAIN: _version(data)}
        else:
            program = Message(memoryview(data))
            graph, versions = _Protobuf(weights).graph(program), {DOMAIN: _of_paddle(program)}
        order(graph, set())
        settle(graph)
    except Unreadable as error:
        raise UsageError(f"{what}: {error}") from None
    except (ValueError, TypeError, LookupError, AttributeError, OverflowError, StopIteration) as error:
        raise UsageError(f"{what} is a damaged program of Paddle: {type(error).__name__}: {error!s:.200}") from None
    return Model(graph, versions, "PaddlePaddle")


def _of_paddle(program: Message) -> int:
    """The version of Paddle that wrote a program in protobuf: 2006002 for 2.6.2."""
    return max(0, next((version.integer(1) for version in program.messages(4)), 0))


def _version(data: bytes) -> int:
    version = json.loads(data)["base_code"]["version"]
    if version not in VERSIONS:
        raise UsageError(
            f"the program has version {version!r} of PIR's JSON; pdl reads {VERSIONS[0]} to {VERSIONS[-1]}"
        )
    return int(version)


def _weights(path: Path | None, names: Sequence[str], what: str) -> dict[str, Array]:
    """The parameters that lie beside a program."""
    if not names:
        return {}
    if path is None:
        raise UsageError(
            f"{what} is a program of Paddle, whose weights lie in another file; give the path of the model"
        )
    beside = path.with_name("__params__") if path.name == "__model__" else path.with_suffix(PARAMETERS)
    try:
        return {name: np.require(array, requirements="A") for name, array in records(map_file(beside), names)}
    except OSError as error:
        raise UsageError(f"{what}: its weights, {beside.name}, cannot be read ({error.strerror})") from None
    except Unreadable as error:
        raise UsageError(f"{beside}: {error}") from None


class _Builder:
    """Collects the parts of a graph."""

    def __init__(self, weights: dict[str, Array]) -> None:
        self.held: dict[str, Array] = dict(weights)
        self.nodes: list[Node] = []
        self.inputs: list[Port] = []
        self.outputs: list[tuple[int, str, Port]] = []
        self._fresh = itertools.count()

    def constant(self, value: Any, dtype: Any = np.int64) -> str:
        name = f"constant {next(self._fresh)}"
        self.held[name] = np.asarray(value, dtype)
        return name

    def node(self, op: str, inputs: list[str], outputs: list[str], attributes: dict[str, Any], name: str = "") -> None:
        check_time()
        if len(self.nodes) > MOST_NAMES:
            raise Unreadable(f"over {MOST_NAMES:,} operations")
        self.nodes.append(Node(op, inputs, outputs, attributes, name or next(filter(None, outputs), ""), DOMAIN))

    def output(self, column: int, source: str, port: Port) -> None:
        self.outputs.append((column, source, port))

    def finished(self, name: str) -> Graph:
        """The graph: outputs have names of their own."""
        ports = []
        taken = {p.name for p in self.inputs} | self.held.keys()
        made = {name for node in self.nodes for name in node.outputs}
        for _, source, port in sorted(self.outputs, key=lambda each: each[0]):
            while port.name in taken or (port.name in made and port.name != source):
                port.name += "'"
            taken.add(port.name)
            if port.name != source:
                self.nodes.append(Node("Identity", [source], [port.name], {}, "", "", 13))
            ports.append(port)
        if not ports:
            raise Unreadable("it has no outputs")
        return Graph(name, self.inputs, ports, self.nodes, self.held)


def _sizes(sizes: Iterable[int], what: str) -> tuple[int | None, ...]:
    found = tuple(n if n >= 0 else None for n in sizes)
    require_shape([n or 0 for n in found], what)
    return found


# -- PIR's JSON --------------------------------------------------------------------------------------------------------
class _Json(_Builder):
    """Values are numbers; lists of values are made, read and taken apart by operations of their own."""

    def graph(self, found: list[dict[str, Any]]) -> Graph:
        """The graph of the operations of a program."""
        self.names: dict[int, str] = {}
        self.lists: dict[int, list[str]] = {}
        for op in found:
            dialect, _, name = op["#"].rpartition(".")
            if op["#"] == PARAMETER:
                self._parameter(op)
            elif dialect == "0" and name == "combine":
                self.lists[_number(op["O"][0])] = [self._name(each) for each in op["I"]]
            elif dialect == "0" and name in ("split", "slice"):
                self._take_apart(name, op)
            elif name in ("data", "feed"):
                self._input(op)
            elif name == "fetch":
                (value,) = op["I"]
                read = _attributes(op)
                dtype, shape = _type(op["O"][0]["TT"])
                label = str(read.get("name") or self._name(value))
                self.output(int(read.get("col", 0)), self._name(value), Port(label, dtype, shape))
            elif name not in ("shadow_output", "yield"):
                self._operation(name, op)
        return self.finished("paddle")

    def _parameter(self, op: dict[str, Any]) -> None:
        name, made = op["A"][3], op["O"]
        array, (dtype, shape) = self.held[name], _type(made["TT"])
        if array.dtype.name != dtype or shape is None or array.shape != shape:
            raise Unreadable(
                f"{name} is {dtype} {shape} in the program; its weights are {array.dtype.name} {array.shape}"
            )
        self.names[_number(made)] = name

    def _input(self, op: dict[str, Any]) -> None:
        (made,) = op["O"]
        dtype, shape = _type(made["TT"])
        name = str(_attributes(op).get("name") or f"%{_number(made)}")
        self.inputs.append(Port(name, dtype, shape))
        self.names[_number(made)] = name

    def _take_apart(self, name: str, op: dict[str, Any]) -> None:
        parts = self.lists[_number(op["I"][0])]
        if name == "slice":
            parts = [parts[int(_attributes(op)["index"])]]
        for made, part in zip(op["O"], parts, strict=True):
            self.names[_number(made)] = part

    def _operation(self, name: str, op: dict[str, Any]) -> None:
        inputs: list[str] = []
        for each in op["I"]:
            inputs += self.lists[_number(each)] if _number(each) in self.lists else [self._name(each)]
        outputs: list[str] = []
        for each in op["O"]:
            number = _number(each)
            kind = each.get("TT") or {}
            if str(kind.get("#", "")).endswith(_VECTOR):
                self.lists[number] = [f"%{number}.{i}" for i in range(len(kind["D"]))]
                outputs += self.lists[number]
            else:
                self.names[number] = f"%{number}" if number else ""
                outputs.append(self.names[number])
        read = {key: value for key, value in _attributes(op).items() if key not in _UNREAD}
        label = str(_attributes(op).get("struct_name") or "").strip("/")
        self.node(name, inputs, outputs, read, f"{label}{':' if label else ''}{next(filter(None, outputs), '')}")

    def _name(self, value: dict[str, Any]) -> str:
        number = _number(value)
        if number == 0:  # an input that is left out
            return ""
        if number not in self.names:
            raise Unreadable(f"value {number} is read before it is made")
        return self.names[number]


def _number(value: dict[str, Any]) -> int:
    number = value["%"]
    if type(number) is not int:
        raise TypeError(f"a value is called {number!r:.40}")
    return number


def _attributes(op: dict[str, Any]) -> dict[str, Any]:
    return {str(each["N"]): _plain(each["AT"]) for each in op["A"]}


def _plain(value: dict[str, Any]) -> Any:
    """An attribute as a number, text, or list of them; a dtype by its name."""
    kind, data = str(value["#"]).rpartition(".")[2], value.get("D")
    if kind == "a_array":
        return [_plain(each) for each in data or ()]
    if kind in ("a_f32", "a_f64", "a_double") and isinstance(data, str):  # what JSON has no numbers for
        return float(data)
    if kind == "a_scalar" and isinstance(data, list):
        return data[-1]
    if not isinstance(data, int | float | str | list | None):
        raise TypeError(f"an attribute of kind {kind}")
    return data


def _type(value: dict[str, Any]) -> tuple[str, tuple[int | None, ...] | None]:
    """Dtype and shape of a tensor's type."""
    kind = str(value["#"]).rpartition(".")[2]
    if kind != _DENSE:
        raise Unreadable(f"a value of type {kind} stands where a tensor belongs")
    element, sizes = value["D"][:2]
    name = str(element["#"]).rpartition(".")[2]
    if name not in _DTYPES:
        raise Unreadable(f"a tensor has elements of type {name}, which pdl does not read")
    if not all(type(n) is int for n in sizes):
        raise TypeError(f"a tensor has the shape {sizes!r:.60}")
    return _DTYPES[name], _sizes(sizes, "a tensor")


# -- ProgramDesc -------------------------------------------------------------------------------------------------------
class _Protobuf(_Builder):
    """Variables have names, and may be written again; each writing has a name of its own here."""

    def graph(self, program: Message) -> Graph:
        """The graph of the first block of a program; others are those of branches and loops, ops that pdl lacks."""
        block = next(program.messages(1))
        self.types = {v.text(1): next(v.messages(2), None) for v in block.messages(3)}
        for name, array in self.held.items():
            dtype, shape = self._type(name)
            if (dtype, shape) != (array.dtype.name, array.shape):
                raise Unreadable(
                    f"{name} is {dtype} {shape} in the program; its weights are {array.dtype.name} {array.shape}"
                )
        self.current = {name: name for name in self.held}
        for op in block.messages(4):
            self._operation(op)
        return self.finished("paddle")

    def _type(self, name: str) -> tuple[str, tuple[int | None, ...] | None]:
        """What the program says of a variable."""
        kind = self.types.get(name)
        tensor = next((t for dense in kind.messages(3) for t in dense.messages(1)), None) if kind else None
        if tensor is None:
            return "float32", None
        if tensor.integer(1) not in TYPES:
            raise Unreadable(f"{name} has elements of type {tensor.integer(1)}, which pdl does not read")
        return TYPES[tensor.integer(1)].name, _sizes(tensor.integers(2), name)

    def _operation(self, op: Message) -> None:
        kind = op.text(3)
        inputs, outputs = ({v.text(1): v.texts(2) for v in op.messages(side)} for side in (1, 2))
        attributes = {a.text(1): attribute(a) for a in op.messages(4)}
        if kind == "feed":
            name = outputs["Out"][0]
            self.inputs.append(Port(name, *self._type(name)))
            self.current[name] = name
        elif kind == "fetch":
            name = inputs["X"][0]
            self.output(int(attributes.get("col", 0)), self._name(name), Port(name, *self._type(name)))
        elif kind not in LEGACY:
            reads = [self._name(name) for names in inputs.values() for name in names if name in self.current]
            self.node(kind, reads, [self._made(name) for names in outputs.values() for name in names], {})
        else:
            self._translated(kind, LEGACY[kind], inputs, outputs, attributes)

    def _translated(self, kind: str, rule: Legacy, inputs: Any, outputs: Any, attributes: dict[str, Any]) -> None:
        if fused := sorted(name for name in FUSED if attributes.get(name)):
            raise UsageError(f"{kind} has {', '.join(fused)}: the model was optimised for a machine, which pdl "
                             "does not read; take the one that was exported")  # fmt: skip
        reads: list[str] = []
        for source in rule.inputs:
            if isinstance(source, Given):
                reads.append(self._given(source, inputs, attributes))
            else:
                names = [self._name(name) for name in inputs.get(source.rstrip("*"), ())]
                if source.endswith("*"):
                    reads += names
                elif len(names) > 1:
                    raise Unreadable(f"{kind} has {len(names)} inputs {source}")
                else:
                    reads.append(names[0] if names else "")
        while reads and not reads[-1]:
            reads.pop()
        kept = {new: attributes[old] for old, new in rule.attributes.items() if old in attributes}
        made = [self._made(name) for each in rule.outputs for name in outputs.get(each) or [""]]
        self.node(rule.op, reads, made, {**kept, **rule.fixed})

    def _given(self, source: Given, inputs: Any, attributes: dict[str, Any]) -> str:
        """What decides a shape: a tensor, tensors with a number each, or an attribute."""
        for name in source.lists:
            if parts := [self._name(each) for each in inputs.get(name) or ()]:
                joined = f"joined {next(self._fresh)}"
                self.node("joined", parts, [joined], {})
                return joined
        for name in source.tensors:
            if inputs.get(name):
                return self._name(inputs[name][0])
        value = attributes.get(source.attribute, source.default)
        return "" if value is None else self.constant(value, source.dtype)

    def _name(self, name: str) -> str:
        if name not in self.current:
            raise Unreadable(f"{name} is read before it is made")
        return self.current[name]

    def _made(self, name: str) -> str:
        if name:
            self.current[name] = f"{name}#{next(self._fresh)}" if name in self.current else name
        return self.current.get(name, "")
