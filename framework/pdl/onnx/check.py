"""What a graph must satisfy before any work is done with it: every fault at once, each with its node."""

from __future__ import annotations

import heapq
from collections import Counter

from pdl.errors import UsageError
from pdl.limits import check_time
from pdl.onnx.graph import Graph, Node, reads
from pdl.onnx.registry import TABLE, find

#: subgraphs inside subgraphs; exporters use two or three levels
DEEPEST = 32


def require_runnable(graph: Graph) -> None:
    """UsageError with every reason why this graph cannot run."""
    faults = structure(graph)
    if faults:
        raise UsageError(f"the graph {graph.name!r} is damaged:\n" + _listed(faults))
    lacking = unsupported(graph)
    if lacking:
        raise UsageError(f"the graph {graph.name!r} has nodes that pdl cannot run:\n" + _listed(lacking))


def _listed(lines: list[str], most: int = 40) -> str:
    shown = [f"  {line}" for line in lines[:most]]
    return "\n".join([*shown, f"  ... and {len(lines) - most} more"] if len(lines) > most else shown)


def structure(graph: Graph, around: frozenset[str] = frozenset(), depth: int = 0) -> list[str]:
    """Names that are read before they are made or made twice; through subgraphs."""
    if depth > DEEPEST:
        return [f"graphs inside graphs, over {DEEPEST} deep"]
    inputs = [p.name for p in graph.inputs]
    faults = [f"two inputs are named {name!r}" for name, n in Counter(inputs).items() if n > 1]
    known = set(around) | set(inputs) | graph.initialisers.keys()
    own = set(inputs) | graph.initialisers.keys()
    for node in graph.nodes:
        check_time()
        faults += [f"{node.label()} reads {name!r}, which nothing has made" for name in node.inputs
                   if name and name not in known]  # fmt: skip
        for inner in node.subgraphs():
            faults += structure(inner, frozenset(known), depth + 1)
        twice = [name for name in node.outputs if name and name in own]
        faults += [f"{node.label()} makes {name!r}, which has been made before" for name in twice]
        own.update(filter(None, node.outputs))
        known.update(filter(None, node.outputs))
    return faults + [f"output {p.name!r} is never made" for p in graph.outputs if p.name not in known]


def unsupported(graph: Graph) -> list[str]:
    """Ops, versions and attributes that the table lacks: a line for each op and reason, with its first node and how
    many more there are."""
    found: dict[tuple[str, str, str], list[Node]] = {}
    for node in graph.walk():
        reasons = _reasons(node)
        if reasons:
            found.setdefault((node.domain, node.op, "; ".join(reasons)), []).append(node)
    return [
        f"{first.label()}{f' and {len(more)} more' if more else ''}: {reason}"
        for (_, _, reason), (first, *more) in found.items()
    ]


def _reasons(node: Node) -> list[str]:
    entry = find(node.domain, node.op, node.opset)
    if entry is not None:
        return entry.problems(node)
    known = TABLE.get((node.domain, node.op))
    if known is None:
        return ["pdl does not have this op"]
    return [f"pdl has this op from opset {known[-1].since} on, the graph uses opset {node.opset}"]


def in_order(nodes: list[Node], known: set[str]) -> list[Node]:
    """The nodes sorted so that each comes after those it reads from; UsageError names nodes that wait for each other.

    ONNX demands this order of a file; some exporters do not keep it.
    """
    made_here = {name for node in nodes for name in node.outputs if name}
    waiting = {
        i: {name for name in reads(node) if name in made_here and name not in known} for i, node in enumerate(nodes)
    }
    readers: dict[str, list[int]] = {}
    for i, names in waiting.items():
        for name in names:
            readers.setdefault(name, []).append(i)
    ready = [i for i, names in waiting.items() if not names]
    placed: list[Node] = []
    while ready:  # a heap: nodes keep the order of the file where they can
        check_time()
        i = heapq.heappop(ready)
        placed.append(nodes[i])
        for name in filter(None, nodes[i].outputs):
            for j in readers.get(name, ()):
                if name in waiting[j]:
                    waiting[j].discard(name)
                    if not waiting[j]:
                        heapq.heappush(ready, j)
    if len(placed) < len(nodes):
        stuck = [nodes[i].label() for i, names in waiting.items() if names]
        raise UsageError(f"the graph has a cycle: these nodes wait for each other: {', '.join(stuck[:10])}")
    return placed
