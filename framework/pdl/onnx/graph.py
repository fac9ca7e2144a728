"""An ONNX graph as plain data, and its interpreter: nodes in order, each run by its function of the table.

Nothing here needs the `onnx` package: a bundle whose graph no program can hold carries this form, and its arrays beside
it. The same walk over the nodes runs a graph on values and, while a `Recorder` is active, traces it into a program.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pdl.dtype import Array
from pdl.errors import DtypeError, MemoryLimitError, PdlError, ShapeError, TraceError, UsageError
from pdl.limits import check_time, limited
from pdl.onnx import values
from pdl.onnx.registry import Context, NeedsValue, find
from pdl.onnx.values import array, dtype_named, is_known, plain, widened, widened_dtype
from pdl.program.tracing import Symbol
from pdl.tensor import Tensor, _Tracing

#: a run of more nodes than this does not end: a damaged file may hold a loop of 2^60 turns
MOST_STEPS = 20_000_000
#: and a trace of more than this is no program to keep: the interpreter runs its loops
MOST_TRACED = 100_000


@dataclass
class Port:
    """An input or output of a graph. shape: ints, names of sizes, None where unknown; None: of unknown rank."""

    name: str
    dtype: str | None = None
    shape: tuple[int | str | None, ...] | None = None
    kind: str = "tensor"


@dataclass
class Node:
    """One call of an op: names of what it reads ("" where absent) and makes; `opset` is its domain's version."""

    op: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Any] = field(default_factory=dict)
    name: str = ""
    domain: str = ""
    opset: int = 1

    def label(self) -> str:
        """``Conv 'backbone/conv1'``, for messages."""
        op = f"{self.domain}.{self.op}" if self.domain else self.op
        return f"{op} {(self.name or next(iter(filter(None, self.outputs)), ''))!r}"

    def subgraphs(self) -> list[Graph]:
        """The graphs among its attributes: branches and loop bodies."""
        return [v for v in self.attributes.values() if isinstance(v, Graph)]


@dataclass
class Graph:
    """Nodes in an order in which they can run, and the arrays they start from."""

    name: str
    inputs: list[Port]
    outputs: list[Port]
    nodes: list[Node]
    initialisers: dict[str, Array] = field(default_factory=dict)
    _interpreter: Interpreter | None = field(default=None, init=False, repr=False, compare=False)

    # -- looking at it -------------------------------------------------------------------------------------------------
    def label(self) -> str:
        """``graph 'body'``, for messages."""
        return f"graph {self.name!r}"

    def walk(self) -> Iterator[Node]:
        """All nodes, those of subgraphs after the node that holds them."""
        for node in self.nodes:
            yield node
            for inner in node.subgraphs():
                yield from inner.walk()

    def graphs(self) -> Iterator[Graph]:
        """This graph and all inside it."""
        yield self
        for node in self.nodes:
            for inner in node.subgraphs():
                yield from inner.graphs()

    def free_names(self) -> set[str]:
        """Names that are read here, or further inside, and made outside."""
        made = {p.name for p in self.inputs} | self.initialisers.keys()
        found: set[str] = set()
        for node in self.nodes:
            found.update(name for name in reads(node) if name not in made)
            made.update(node.outputs)
        return found | {p.name for p in self.outputs if p.name not in made}

    # -- running it ----------------------------------------------------------------------------------------------------
    @property
    def interpreter(self) -> Interpreter:
        """What runs this graph, made once: change no node afterwards."""
        if self._interpreter is None:
            self._interpreter = Interpreter(self)
        return self._interpreter

    def run(self, inputs: Mapping[str, Any], outputs: Sequence[str] | None = None) -> dict[str, Any]:
        """The outputs (all, or the named ones) for arrays by name."""
        given = {port.name: _accepted(port, inputs) for port in self.inputs}
        if unknown := sorted(inputs.keys() - given.keys()):
            raise UsageError(f"the graph has no input {', '.join(unknown)}; its inputs are {', '.join(given)}")
        made = self.interpreter.run(list(given.values()))
        found = {port.name: _returned(port, value) for port, value in zip(self.outputs, made, strict=True)}
        for name in outputs or ():
            if name not in found:
                raise UsageError(f"the graph has no output {name!r}; its outputs are {', '.join(found)}")
        return found if outputs is None else {name: found[name] for name in outputs}

    # -- the serialised form -------------------------------------------------------------------------------------------
    def to_dict(self) -> tuple[dict[str, Any], dict[str, Array]]:
        """Plain values fit for JSON, and the arrays they refer to by name."""
        from pdl.onnx.stored import to_dict

        return to_dict(self)

    @staticmethod
    def from_dict(data: Mapping[str, Any], weights: Mapping[str, Array]) -> Graph:
        """The graph that `to_dict` wrote."""
        from pdl.onnx.stored import from_dict

        return from_dict(data, weights)


def reads(node: Node) -> Iterator[str]:
    """The names that a node reads, through its subgraphs too."""
    yield from filter(None, node.inputs)
    for inner in node.subgraphs():
        yield from inner.free_names()


# -- running -----------------------------------------------------------------------------------------------------------
class Plan:
    """What running one graph needs to know: functions of its nodes, and which values are not used after each."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.functions: list[Callable[..., Any]] = []
        for node in graph.nodes:
            entry = find(node.domain, node.op, node.opset)
            if entry is None:
                raise UsageError(f"{node.label()}: opset {node.opset} of this op is not supported")
            self.functions.append(entry.function)
        self.constants = {name: widened(x) for name, x in graph.initialisers.items()}
        self.dying = self._dying()

    def _dying(self) -> list[tuple[str, ...]]:
        """For each node, the names made in this graph that are not used after it."""
        kept = {p.name for p in self.graph.outputs} | self.constants.keys()
        seen: set[str] = set()
        found = []
        for node in reversed(self.graph.nodes):
            names = {*reads(node), *filter(None, node.outputs)} - kept - seen
            seen |= names
            found.append(tuple(names))
        return found[::-1]


class Interpreter:
    """Runs a graph, any number of times, in any number of threads."""

    def __init__(self, graph: Graph) -> None:
        self.plans = {id(inner): Plan(inner) for inner in graph.graphs()}
        self.graph = graph
        constants: set[int] = set()
        for plan in self.plans.values():
            constants.update(map(id, plan.constants.values()))
        self.constants = frozenset(constants)
        self.prepared: dict[Any, Any] = {}

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """The outputs for values in the order of the inputs."""
        with limited(nbytes=values.LARGEST), np.errstate(all="ignore"):
            return Frame(self, self.graph, inputs, None).run()


class _Steps(threading.local):
    """How many nodes this thread has run inside the outermost graph, and what constants they made while tracing."""

    count = nbytes = 0

    def add(self, node: Node | Graph) -> None:
        """Count a node, or a turn of a graph inside; refuse to go on for ever, or beyond a deadline."""
        check_time()
        self.count += 1
        recorder = _Tracing.recorder
        if recorder is not None and max(self.count, len(recorder.program.nodes)) > MOST_TRACED:
            raise NeedsValue(f"{node.label()}: {MOST_TRACED:,} nodes have been traced, and the graph has not ended")
        if self.count > MOST_STEPS:
            raise UsageError(f"{node.label()}: {MOST_STEPS:,} nodes have run; a loop of this graph does not end")

    def weigh(self, node: Node, value: Any) -> None:
        """Refuse results that no model means: huge ones, and constants that add up to too much."""
        if isinstance(value, Symbol):
            values.require_room(node.label(), value.shape, value.dtype.itemsize)
        elif hasattr(value, "dtype"):
            self.nbytes += math.prod(map(int, value.shape)) * int(value.dtype.itemsize)
            if self.nbytes > values.LARGEST:
                raise UsageError(f"{node.label()}: constants of over {values.LARGEST / 2**30:.2g} GiB have been folded")


_steps = _Steps()


class Frame:
    """One run of one graph: its values by name, and the frame around it whose names it sees."""

    def __init__(self, interpreter: Interpreter, graph: Graph, inputs: Sequence[Any], outer: Frame | None) -> None:
        self.interpreter, self.outer = interpreter, outer
        self.plan = interpreter.plans[id(graph)]
        if len(inputs) > len(graph.inputs):
            raise UsageError(f"graph {graph.name!r} takes {len(graph.inputs)} inputs, got {len(inputs)}")
        self.values: dict[str, Any] = dict(self.plan.constants)
        self.values.update(zip((p.name for p in graph.inputs), inputs, strict=False))
        if outer is None:
            _steps.count = _steps.nbytes = 0

    def get(self, name: str) -> Any:
        """The value of a name here or around."""
        frame: Frame | None = self
        while frame is not None:
            if name in frame.values:
                return frame.values[name]
            frame = frame.outer
        raise UsageError(f"graph {self.plan.graph.name!r} reads {name!r}, which nothing has made")

    def run(self) -> list[Any]:
        """Every node once, in order."""
        plan = self.plan
        for node, function, dying in zip(plan.graph.nodes, plan.functions, plan.dying, strict=True):
            self.step(node, function)
            for name in dying:
                self.values.pop(name, None)
        return [self.get(port.name) for port in plan.graph.outputs]

    def step(self, node: Node, function: Callable[..., Any]) -> None:
        """Run one node and name what it made."""
        _steps.add(node)
        inside = self.interpreter
        context = Context(node, self._call, inside.prepared, inside.constants)
        inputs = [self.get(name) if name else None for name in node.inputs]
        made = self._guarded(node, function, context, inputs)
        made = made if isinstance(made, tuple) else (made,)
        tracing = _Tracing.recorder is not None
        if len(made) < context.outputs:
            raise UsageError(f"{node.label()}: output {len(made) + 1} of this op is not supported")
        for name, value in zip(node.outputs, made, strict=False):
            if name:
                if tracing:
                    _steps.weigh(node, value)
                self.values[name] = _settled(value)

    def _guarded(self, node: Node, function: Callable[..., Any], context: Context, inputs: list[Any]) -> Any:
        """Call the function; what goes wrong in it names the node."""
        recorder = _Tracing.recorder
        outer = None if recorder is None else recorder._where
        if recorder is not None:
            recorder._where = node.label()
        try:
            return function(context, *inputs, **node.attributes)
        except TraceError:
            raise
        except PdlError as error:
            raise _named(error, node) from error
        except MemoryError as error:
            raise MemoryLimitError(f"{node.label()}: there is no memory for its result") from error
        except (ValueError, TypeError, LookupError, ArithmeticError, AttributeError, AssertionError) as error:
            # the table trusts a node's shapes and dtypes; a file that breaks them must not look like a crash of pdl
            raise UsageError(f"{node.label()}: {type(error).__name__}: {error}; {_shapes(inputs)}") from error
        finally:
            if recorder is not None:
                recorder._where = outer

    def _call(self, graph: Graph, inputs: Sequence[Any]) -> list[Any]:
        _steps.add(graph)  # a loop whose body has no node would count none
        return Frame(self.interpreter, graph, inputs, self).run()


class _Waiting:
    """The value of a name that only a run will make."""


WAITING = _Waiting()


class Beginning(Frame):
    """The outermost frame of a trace that leaves out what waits for values: nodes that need one, and all that read from
    these. Names keep their values to the end, for those who wait.
    """

    def __init__(self, interpreter: Interpreter, graph: Graph, inputs: Sequence[Any]) -> None:
        super().__init__(interpreter, graph, inputs, None)
        self.waiting: list[Node] = []

    def run(self) -> list[Any]:
        """Every node that can run, in order."""
        with limited(nbytes=values.LARGEST), np.errstate(all="ignore"):
            for node, function in zip(self.plan.graph.nodes, self.plan.functions, strict=True):
                self.step(node, function)
        return [self.get(port.name) for port in self.plan.graph.outputs]

    def step(self, node: Node, function: Callable[..., Any]) -> None:
        """Run one node, or let it wait."""
        try:
            if not any(self.values.get(name) is WAITING for name in reads(node)):
                return super().step(node, function)
        except NeedsValue:
            pass
        self.waiting.append(node)
        self.values.update(dict.fromkeys(filter(None, node.outputs), WAITING))

    def rest(self) -> tuple[Graph, list[Any]]:
        """The graph of the nodes that wait, and what the program computes for it, in the order of its inputs."""
        graph = self.plan.graph
        names = {name: None for node in self.waiting for name in reads(node)} | {p.name: None for p in graph.outputs}
        found = {name: self.values[name] for name in names if self.values.get(name, WAITING) is not WAITING}
        computed = {name: value for name, value in found.items() if isinstance(value, Symbol)}
        held = {name: value for name, value in found.items() if name not in computed}
        for name, value in held.items():
            if value is None or isinstance(value, list):
                raise NeedsValue(f"{name!r}, which is no tensor, is read by nodes that wait for values")
        ports = [Port(name, value.dtype.name) for name, value in computed.items()]
        arrays = {name: array(value) for name, value in held.items()}
        return Graph(graph.name, ports, graph.outputs, self.waiting, arrays), list(computed.values())


def _settled(value: Any) -> Any:
    """Integers and bools that are known go on as arrays: most are shapes, whose arithmetic NumPy does."""
    if isinstance(value, bool | int | float | np.generic):
        return values.settled(value)
    return value._data if type(value) is Tensor and value._data.dtype.kind in "iub" else value


def _named(error: PdlError, node: Node) -> PdlError:
    """The error with the node in front, once."""
    if getattr(error, "node", None) is not None:
        return error
    text = str(error)
    made = type(error)(text if node.label() in text else f"{node.label()}: {text}")
    made.node = node  # type: ignore[attr-defined]
    return made


def _shapes(inputs: Sequence[Any]) -> str:
    """The inputs of a node for a message."""
    shown = [f"{x.dtype.name}{list(x.shape)}" if hasattr(x, "shape") else type(x).__name__ for x in inputs]
    return f"inputs: {', '.join(shown) or 'none'}"


# -- the rim -----------------------------------------------------------------------------------------------------------
def _accepted(port: Port, inputs: Mapping[str, Any]) -> Any:
    """The value given for an input, checked against its declaration."""
    if port.name not in inputs:
        raise UsageError(f"input {port.name!r} is missing; given: {', '.join(inputs) or 'nothing'}")
    value = inputs[port.name]
    if port.kind != "tensor" or value is None or isinstance(value, list):
        return value
    value = array(value) if is_known(value) else value
    if port.dtype not in (None, "string") and widened_dtype(value.dtype) != widened_dtype(dtype_named(port.dtype)):
        raise DtypeError(f"input {port.name!r} is {value.dtype.name}; expected {port.dtype}")
    check_shape(port, value.shape)
    return widened(value) if isinstance(value, np.ndarray) else value


def check_shape(port: Port, shape: Sequence[int]) -> None:
    """ShapeError unless a shape has the declared rank and fixed sizes."""
    if port.shape is None:
        return
    fits = len(shape) == len(port.shape) and all(
        not isinstance(want, int) or want == have for want, have in zip(port.shape, shape, strict=True)
    )
    if not fits:
        raise ShapeError(f"input {port.name!r} has shape {tuple(shape)}; expected {show_shape(port.shape)}")


def show_shape(shape: tuple[int | str | None, ...] | None) -> str:
    """``[n, 3, ?, ?]``."""
    return "of any shape" if shape is None else f"[{', '.join('?' if n is None else str(n) for n in shape)}]"


def _returned(port: Port, value: Any) -> Any:
    """An output as an array of its declared dtype."""
    if isinstance(value, list):
        return [_returned(Port(port.name, port.dtype), v) for v in value]
    if value is None:
        return None
    value = value.numpy() if isinstance(value, Tensor) else np.asarray(value)
    if value.dtype == object and port.dtype != "string":
        value = plain(value)
    if port.dtype == "float16" and value.dtype == np.float32:
        with np.errstate(over="ignore"):
            value = value.astype(np.float16)
    return value
