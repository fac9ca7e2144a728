"""The table of ONNX ops: one Python function each, which both traces a graph into a program and runs it at once.

A function takes a `Context`, the node's inputs and, keyword-only, its attributes::

    @onnx_op("Relu")
    def _relu(ctx: Context, x: Any) -> Any:
        return ops.relu(tensor(x))

Inputs are NumPy arrays where their values are known (constants, shapes, everything in a run of the interpreter) and pdl
tensors otherwise; `pdl.onnx.values` converts. A missing optional input is None. The result is one value, or a tuple
with at least as many as the node names.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

from pdl.dtype import Array
from pdl.errors import TraceError
from pdl.onnx.sizes import has_ratios, is_symbolic
from pdl.program.tracing import Symbol
from pdl.tensor import Tensor

if TYPE_CHECKING:
    from pdl.onnx.graph import Graph, Node

#: (domain, name) -> the functions of an op by the opset they begin with, newest first; "" is ONNX's own domain
TABLE: dict[tuple[str, str], list[Entry]] = {}


class NeedsValue(TraceError):
    """A value decides a shape or a branch, and is not known while a graph is traced: the interpreter must run it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason, "ONNX")


class Entry(NamedTuple):
    """An op from opset `since` on: its function, what it demands of a node, and what it accepts.

    inputs      fewest and most inputs; None: any number
    required    attributes that a node must have
    attributes  all attributes that the function takes; None: any
    """

    since: int
    function: Callable[..., Any]
    inputs: tuple[int, int | None]
    required: frozenset[str]
    attributes: frozenset[str] | None

    def problems(self, node: Node) -> list[str]:
        """Why this entry cannot run a node."""
        found = []
        low, high = self.inputs
        if len(node.inputs) < low or (high is not None and len(node.inputs) > high):
            wanted = f"{low} or more" if high is None else str(low) if low == high else f"{low} to {high}"
            found.append(f"it has {len(node.inputs)} inputs; expected {wanted}")
        missing = sorted(self.required - node.attributes.keys())
        if missing:
            found.append(f"it lacks the attribute {', '.join(missing)}")
        if self.attributes is not None and (unknown := sorted(node.attributes.keys() - self.attributes)):
            found.append(f"its attribute {', '.join(unknown)} is not supported")
        return found


def onnx_op(name: str, *, since: int = 1, domain: str = "") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Register a function for the ONNX op `name`, from opset `since` of its domain until a newer entry begins."""

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        entries = TABLE.setdefault((domain, name), [])
        if any(e.since == since for e in entries):
            raise TypeError(f"two functions for the ONNX op {domain or 'ai.onnx'}.{name} since opset {since}")
        entries.append(_entry(since, function))
        entries.sort(key=lambda e: -e.since)
        return function

    return register


def _entry(since: int, function: Callable[..., Any]) -> Entry:
    """Read the demands of a function from its signature."""
    kinds = inspect.Parameter
    parameters = list(inspect.signature(function).parameters.values())[1:]
    inputs = [p for p in parameters if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)]
    attributes = [p for p in parameters if p.kind is kinds.KEYWORD_ONLY]
    low = sum(p.default is kinds.empty for p in inputs)
    variadic = any(p.kind is kinds.VAR_POSITIONAL for p in parameters)
    open_ended = any(p.kind is kinds.VAR_KEYWORD for p in parameters)
    return Entry(
        since,
        function,
        (low, None if variadic else len(inputs)),
        frozenset(p.name for p in attributes if p.default is kinds.empty),
        None if open_ended else frozenset(p.name for p in attributes),
    )


def find(domain: str, name: str, opset: int) -> Entry | None:
    """The entry of an op in an opset, or None."""
    load_table()
    return next((e for e in TABLE.get((domain, name), ()) if e.since <= opset), None)


def today(name: str, opset: int = 1 << 30) -> Callable[..., Any]:
    """The function of one of ONNX's own ops, for ops that are made of it: the newest, or that of an opset."""
    entry = find("", name, opset)
    assert entry is not None
    return entry.function


def alike(register: Callable[[Callable[..., Any]], Callable[..., Any]], other: str) -> None:
    """Register, for an op of another format, the function of ONNX's op `other`, which takes inputs alone."""

    def same(ctx: Context, x: Any, *more: Any) -> Any:
        return today(other)(ctx, x, *more)

    same.__doc__ = f"{other} of ONNX."
    register(same)


_loaded: list[str] = []


def load_table() -> None:
    """Import every file of `pdl.onnx.table`; they register themselves."""
    if not _loaded:
        from pdl.onnx import table

        for module in pkgutil.iter_modules(table.__path__):
            importlib.import_module(f"{table.__name__}.{module.name}")
        _loaded.append("all")


class Context:
    """What a table function may know besides its inputs.

    node       the node
    opset      the version of the node's operator set
    outputs    how many outputs the node names, trailing absent ones not counted
    """

    def __init__(
        self,
        node: Node,
        call: Callable[[Graph, Sequence[Any]], list[Any]],
        prepared: dict[Any, Any],
        constants: frozenset[int],
    ) -> None:
        self.node = node
        self._call, self._prepared, self._constants = call, prepared, constants

    @property
    def opset(self) -> int:
        """The version of the node's operator set."""
        return self.node.opset

    @cached_property
    def outputs(self) -> int:
        """How many outputs the node names, trailing absent ones not counted."""
        return max((i + 1 for i, name in enumerate(self.node.outputs) if name), default=0)

    def wants(self, index: int) -> bool:
        """Whether output `index` is read by anybody."""
        return index < len(self.node.outputs) and bool(self.node.outputs[index])

    def value(self, x: Any, what: str = "a value") -> Array:
        """The values of x as an array; raises `NeedsValue` where they are known only when the program runs."""
        if isinstance(x, Symbol):
            raise NeedsValue(f"{self.node.label()} needs {what} known before it runs")
        if is_symbolic(x):
            raise NeedsValue(f"{self.node.label()} needs {what}, which sizes decide, known before it runs")
        return x._data if isinstance(x, Tensor) else x  # type: ignore[no-any-return]

    def ints(self, x: Any, what: str = "sizes") -> tuple[int, ...]:
        """The entries of a one-dimensional integer input; symbolic sizes stay symbolic."""
        values = x if is_symbolic(x) and not has_ratios(x) else self.value(x, what)
        return tuple(v if isinstance(v, int) else int(v) for v in values.reshape(-1).tolist())

    def call(self, graph: Graph, inputs: Sequence[Any]) -> list[Any]:
        """The outputs of a subgraph, which reads names around it too."""
        return self._call(graph, inputs)

    def constant(self, x: Any) -> bool:
        """Whether x is one of the graph's constants."""
        return id(x) in self._constants

    def prepared(self, key: Any, x: Array, make: Callable[[Array], Any]) -> Any:
        """make(x), computed once a graph where x is one of its constants, such as a weight in another layout."""
        if not self.constant(x):
            return make(x)
        found = self._prepared.get((key, id(x)))
        if found is None:
            found = self._prepared[key, id(x)] = make(x)
        return found
