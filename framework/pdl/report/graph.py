"""The graph of a program for people: boxes and edges, with modules as groups and repeated modules folded.

`graph_of(program)` makes it, `fold` shortens it, `pdl.report.drawing.draw` paints it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pdl.ops.base import Op
from pdl.ops.cost import multiply_adds
from pdl.program import Node, Program, Value

#: the files of ops that have a colour of their own
FAMILIES = {
    "norm": "norm", "batchnorm": "norm", "layer_norm": "norm", "activation": "activation", "softmax": "activation",
    "pool": "pool", "loss": "loss", "crf": "loss", "ctc": "loss", "dropout": "noise", "shape": "shape",
    "index": "shape", "cast": "shape", "embedding": "table",
}  # fmt: skip
#: attributes that are not worth a word
PLAIN = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1}


@dataclass(frozen=True)
class Box:
    """One node: its op, what to say below, the family that colours it, the path of its module, and the boxes (by
    number) that it reads.
    """

    title: str
    lines: tuple[str, ...] = ()
    family: str = ""
    module: str = ""
    inputs: tuple[int, ...] = ()


@dataclass
class Graph:
    """Boxes in an order in which they can run. `folded`: the module that is shown, and how many like it there are."""

    name: str
    boxes: list[Box]
    folded: dict[str, int] = field(default_factory=dict)


# -- from programs -----------------------------------------------------------------------------------------------------
def graph_of(program: Program) -> Graph:
    """Inputs, nodes and outputs of a program as boxes; weights and constants are named inside the box that reads them.

    Nodes that only keep running statistics are left out.
    """
    number: dict[Value, int] = {}
    boxes: list[Box] = []
    names = program.names()
    nodes = _leading(program)
    read = {v for node in nodes for v in node.inputs}
    for value in (v for v in program.inputs if v in read):
        number[value] = len(boxes)
        boxes.append(Box(names[value], (shape_text(value),), "input"))
    for node in nodes:
        for value in node.outputs:
            number[value] = len(boxes)
        sources = tuple(dict.fromkeys(number[v] for v in node.inputs if v is not None and v in number))
        boxes.append(replace(_box(node, names), inputs=sources))
    for value in dict.fromkeys(v for v in program.outputs if v is not None and v.node is not None):
        boxes.append(Box("output", (shape_text(value),), "input", inputs=(number[value],)))
    return Graph(program.name, boxes)


def _leading(program: Program) -> list[Node]:
    """The nodes that an output depends on, in order."""
    wanted = [v for v in program.outputs if v is not None]
    found: set[int] = set()
    while wanted:
        node = wanted.pop().node
        if node is not None and id(node) not in found:
            found.add(id(node))
            wanted += [v for v in node.inputs if v is not None]
    return [node for node in program.nodes if id(node) in found]


def _box(node: Node, names: dict[Value, str]) -> Box:
    lines = [node.scope] if node.scope else []
    lines += _wrapped(_attributes(node.op))
    weights = [v for v in node.inputs if v is not None and v.tensor is not None]
    lines += [f"{_last(names[v], node.scope)} {shape_text(v)}" for v in weights if v.spec.shape]
    lines.append("→ " + ", ".join(shape_text(v) for v in node.outputs[:2]) + (", …" if len(node.outputs) > 2 else ""))
    return Box(type(node.op).__name__, tuple(lines), family_of(node), node.scope)


def family_of(node: Node) -> str:
    """What colours a node: "product", or by the file of its op."""
    ins = tuple(None if v is None else v.spec for v in node.inputs)
    if multiply_adds(node.op, ins, tuple(v.spec for v in node.outputs)):
        return "product"
    return FAMILIES.get(type(node.op).__module__.rpartition(".")[2], "")


def shape_text(value: Value) -> str:
    """Sizes joined by a multiplication sign, with the dtype where it is not float32."""
    shape = "\N{MULTIPLICATION SIGN}".join(map(str, value.spec.shape)) or "scalar"
    return shape if value.spec.dtype.name == "float32" else f"{shape} {value.spec.dtype.name}"


def _last(name: str, scope: str) -> str:
    """The name of a weight inside its own module."""
    return name.removeprefix(f"{scope}.") if scope else name


def _attributes(op: Op) -> list[str]:
    """ "stride 2", "padding 1": what differs from the defaults and from an op's plain form."""
    found = []
    for name in op.fields:
        value = _uniform(getattr(op, name))
        if value != PLAIN.get(name) and (name not in op.defaults or value != _uniform(op.defaults[name])):
            shown = f"{value:.4g}" if isinstance(value, float) else value.name if isinstance(value, Program) else value
            found.append(name if value is True else f"{name} {shown}")
    return found


def _uniform(value: Any) -> Any:
    """(2, 2) as 2, ((1, 1), (1, 1)) as 1; everything else as it is."""
    if isinstance(value, tuple) and value:
        parts = [_uniform(v) for v in value]
        if all(type(p) is int and p == parts[0] for p in parts) and len(parts) > 1:
            return parts[0]
    return value


def _wrapped(parts: list[str], width: int = 34) -> list[str]:
    """Comma-separated, in lines of about `width` characters; what is longer is cut."""
    lines: list[str] = []
    for part in parts:
        if lines and len(lines[-1]) + len(part) + 2 <= width:
            lines[-1] += f", {part}"
        else:
            lines.append(part if len(part) <= 1.5 * width else part[:width] + "…")
    return lines


# -- folding -----------------------------------------------------------------------------------------------------------
def fold(graph: Graph, *, above: int = 0) -> Graph:
    """Show one of several equal modules in a row (`layer1.1`, `layer1.2`, ...) if there are more than `above` boxes.

    Equal are neighbours under one parent, numbered one after the other, that hold the same ops with the same attributes
    and shapes, wired alike.
    """
    if len(graph.boxes) <= above:
        return graph
    depth = 1
    while any(box.module.count(".") >= depth - 1 for box in graph.boxes if box.module):
        graph = _fold_level(graph, depth)
        depth += 1
    return graph


def _fold_level(graph: Graph, depth: int) -> Graph:
    """Fold modules whose path has `depth` parts."""
    groups: dict[str, list[int]] = {}
    for number, box in enumerate(graph.boxes):
        parts = box.module.split(".")
        if len(parts) >= depth and parts[depth - 1].isdigit():
            groups.setdefault(".".join(parts[:depth]), []).append(number)
    stands_for: dict[int, int] = {}
    folded = dict(graph.folded)
    for first, others in _runs(graph, groups):
        folded[first] = 1 + len(others)
        for other in others:
            stands_for.update(zip(groups[other], groups[first], strict=True))
    return _without(graph, stands_for, folded)


def _runs(graph: Graph, groups: dict[str, list[int]]) -> Iterator[tuple[str, list[str]]]:
    """(a module, the equal ones that follow it) for each run of at least two."""
    names = list(groups)
    at = 0
    while at < len(names):
        end = at + 1
        while end < len(names) and _follows(names[end - 1], names[end]) and _alike(
            graph, groups[names[at]], groups[names[end]], names[at], names[end]
        ):  # fmt: skip
            end += 1
        if end - at > 1:
            yield names[at], names[at + 1 : end]
        at = end


def _follows(before: str, after: str) -> bool:
    """Whether two paths are neighbours: the same parent and consecutive numbers."""
    (a, _, m), (b, _, n) = before.rpartition("."), after.rpartition(".")
    return a == b and int(n) == int(m) + 1


def _alike(graph: Graph, ones: Sequence[int], twos: Sequence[int], one: str, two: str) -> bool:
    """Whether two groups of boxes say the same and are wired alike inside."""
    if len(ones) != len(twos):
        return False
    place = {**{n: i for i, n in enumerate(ones)}, **{n: i for i, n in enumerate(twos)}}
    inside = (set(ones), set(twos))
    for i, j in zip(ones, twos, strict=True):
        a, b = graph.boxes[i], graph.boxes[j]
        if (a.title, _plain(a, one)) != (b.title, _plain(b, two)):
            return False
        wiring = [[place[n] if n in own else -1 for n in box.inputs] for box, own in ((a, inside[0]), (b, inside[1]))]
        if wiring[0] != wiring[1]:
            return False
    return True


def _plain(box: Box, module: str) -> tuple[str, ...]:
    """The lines of a box, without the path of the module it lies in."""
    return tuple(line.removeprefix(module) if line == box.module else line for line in box.lines)


def _without(graph: Graph, stands_for: dict[int, int], folded: dict[str, int]) -> Graph:
    """The graph without the boxes that others stand for."""
    kept = [n for n in range(len(graph.boxes)) if n not in stands_for]
    now = {n: i for i, n in enumerate(kept)}

    def inputs(n: int) -> tuple[int, ...]:
        """Where a box reads a folded one, it reads the one that stands for it."""
        found = [now[stands_for.get(i, i)] for i in graph.boxes[n].inputs]
        return tuple(dict.fromkeys(i for i in found if i < now[n]))

    return Graph(graph.name, [replace(graph.boxes[n], inputs=inputs(n)) for n in kept], folded)
