"""Model-local functions, expanded: a call becomes the body's nodes under names of their own."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from pdl.errors import UsageError
from pdl.limits import check_time
from pdl.onnx.graph import Graph, Node

#: calls inside calls; a function that calls itself would never end
DEEPEST_CALL = 64
#: nodes that one graph may grow to
MOST_NODES = 1_000_000


def expand(graph: Graph, library: Mapping[tuple[str, str], Any], body_of: Callable[[Any], Graph]) -> None:
    """Replace all calls of functions of `library` in a graph and inside it, in place; `body_of` reads a function."""
    if library:
        _Expander(library, body_of).graph(graph, 0)


class _Expander:
    def __init__(self, library: Mapping[tuple[str, str], Any], body_of: Callable[[Any], Graph]) -> None:
        self.library, self.body_of = library, body_of
        self.fresh = itertools.count()
        self.made = 0

    def graph(self, graph: Graph, depth: int) -> None:
        graph.nodes = list(self.nodes(graph.nodes, depth))

    def nodes(self, nodes: Iterable[Node], depth: int) -> Iterable[Node]:
        for node in nodes:
            for inner in node.subgraphs():
                self.graph(inner, depth)
            function = self.library.get((node.domain, node.op))
            check_time()
            self.made += 1  # calls, too: functions without nodes may call each other 2^64 times
            if self.made > MOST_NODES:
                raise UsageError(f"the functions of the model expand to over {MOST_NODES:,} nodes and calls")
            if function is None:
                yield node
            else:
                yield from self.call(node, function, depth + 1)

    def call(self, node: Node, function: Any, depth: int) -> Iterable[Node]:
        """The nodes that a call stands for."""
        if depth > DEEPEST_CALL:
            raise UsageError(f"{node.label()}: functions call each other over {DEEPEST_CALL} deep")
        body = self.body_of(function)
        if len(node.inputs) > len(body.inputs) or len(node.outputs) > len(body.outputs):
            raise UsageError(f"{node.label()} does not fit the function's inputs and outputs")
        defaults = {a.name for a in function.attribute_proto} | set(function.attribute)
        if unknown := sorted(node.attributes.keys() - defaults):
            raise UsageError(f"{node.label()}: the function has no attribute {', '.join(unknown)}")
        given = {**default_attributes(function, self.body_of), **node.attributes}
        prefix = f"{node.name or node.op}@{next(self.fresh)}/"
        names = dict(itertools.zip_longest((p.name for p in body.inputs), node.inputs, fillvalue=""))
        renamed = rename(body.nodes, names, prefix, given)
        yield from self.nodes(renamed, depth)
        for port, outer in zip(body.outputs, node.outputs, strict=False):
            if outer:
                yield Node("Identity", [names.get(port.name, port.name)], [outer], {}, f"{prefix}{outer}", "", 13)


def default_attributes(function: Any, body_of: Callable[[Any], Graph]) -> dict[str, Any]:
    """The attributes that a function gives itself where its caller is silent."""
    if not function.attribute_proto:
        return {}
    carrier = type(function)()
    node = carrier.node.add(op_type="Defaults")
    node.attribute.extend(function.attribute_proto)
    return body_of(carrier).nodes[0].attributes


def rename(nodes: Iterable[Node], names: dict[str, str], prefix: str, given: Mapping[str, Any]) -> list[Node]:
    """Copies of nodes whose names are their own, with the references among their attributes resolved."""
    made = []
    for node in nodes:
        inputs = [names.get(n, n) for n in node.inputs]
        for name in filter(None, node.outputs):
            names[name] = prefix + name
        attributes = {k: _resolved(v, names, prefix, given) for k, v in node.attributes.items()}
        kept = {k: v for k, v in attributes.items() if v is not None}
        outputs = [names.get(n, n) for n in node.outputs]
        made.append(
            replace(node, inputs=inputs, outputs=outputs, attributes=kept, name=prefix + (node.name or node.op))
        )
    return made


def _resolved(value: Any, names: dict[str, str], prefix: str, given: Mapping[str, Any]) -> Any:
    from pdl.onnx.reader import Reference

    if isinstance(value, Reference):
        return given.get(value.name)
    if not isinstance(value, Graph):
        return value
    inner = dict(names)
    for name in (*(p.name for p in value.inputs), *value.initialisers):
        inner[name] = prefix + name
    inputs = [replace(p, name=inner[p.name]) for p in value.inputs]
    initialisers = {inner[name]: x for name, x in value.initialisers.items()}
    nodes = rename(value.nodes, inner, prefix, given)
    outputs = [replace(p, name=inner.get(p.name, p.name)) for p in value.outputs]
    return Graph(value.name, inputs, outputs, nodes, initialisers)
