"""The program: ops in order, each value assigned once.

A `Program` is typed and closed: every value is an input, a captured tensor or the output of an earlier node, and has a
`Spec`. It holds no Python code, so it can be checked, rewritten, planned, printed and stored.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any, cast

from pdl.dims import Dim, examples
from pdl.dtype import as_dtype
from pdl.errors import UsageError
from pdl.ops.base import Op, Spec
from pdl.tensor import Tensor


class Value:
    """One array of a program: an input, a captured tensor, or output `index` of `node`.

    `tensor` is set for captured ones; its array is read when the program runs, so a weight may change between runs.
    """

    __slots__ = ("index", "name", "node", "spec", "tensor")

    def __init__(self, spec: Spec, *, node: Node | None = None, index: int = 0, tensor: Tensor | None = None) -> None:
        self.spec, self.node, self.index, self.tensor = spec, node, index, tensor
        self.name: str | None = None

    @property
    def constant(self) -> bool:
        """A captured tensor that is no module's state: its values are part of the program."""
        return self.tensor is not None and not is_state(self.tensor)

    @property
    def nbytes(self) -> int:
        """Size of the array."""
        return size_of(self.spec)

    def __repr__(self) -> str:
        return f"Value({self.name or '?'}: {show_spec(self.spec)})"


class Node:
    """One op in a program.

    where            "file:line" of the user's code that called it; for gradients, of the op they belong to
    scope            path of the module it was called in
    differentiable   a gradient may flow through it
    verified         the op with the specs of inputs and outputs that have been found to fit
    """

    __slots__ = ("differentiable", "inputs", "op", "outputs", "scope", "verified", "where")

    def __init__(
        self,
        op: Op,
        inputs: Iterable[Value | None],
        specs: Iterable[Spec],
        *,
        where: str = "",
        scope: str = "",
        differentiable: bool = False,
    ) -> None:
        self.op, self.inputs = op, tuple(inputs)
        self.outputs = tuple(Value(spec, node=self, index=i) for i, spec in enumerate(specs))
        self.where, self.scope, self.differentiable = where, scope, differentiable
        self.verified: tuple[Any, ...] = ()

    def specs(self) -> tuple[Any, ...]:
        """The op with the specs of inputs and outputs, as `verified` holds them."""
        return self.op, *[None if v is None else v.spec for v in self.inputs], *[v.spec for v in self.outputs]

    def __repr__(self) -> str:
        return f"Node({self.op!r})"


class Program:
    """Nodes in an order in which they can run.

    inputs     values given at every run
    captures   tensors read at every run: parameters, buffers and constants
    outputs    values returned (None where a gradient does not exist)
    effects    (buffer, value): after the nodes the value is copied into the buffer, as for running statistics
    """

    def __init__(self, name: str = "program") -> None:
        self.name = name
        self.inputs: list[Value] = []
        self.captures: list[Value] = []
        self.nodes: list[Node] = []
        self.outputs: list[Value | None] = []
        self.effects: list[tuple[Value, Value]] = []

    def uses(self) -> Counter[Value]:
        """How often each value is read: by nodes, as an output, by effects."""
        found: Counter[Value | None] = Counter(chain.from_iterable([node.inputs for node in self.nodes]))
        found.update(self.outputs)
        found.update([value for _, value in self.effects])
        found.pop(None, None)
        return cast("Counter[Value]", found)

    def readers(self) -> dict[Value, list[Node]]:
        """The nodes that read each value, in order; one that reads it twice counts twice."""
        found: dict[Value, list[Node]] = {}
        for node in self.nodes:
            for value in node.inputs:
                if value is not None:
                    found.setdefault(value, []).append(node)
        return found

    def replace(self, mapping: dict[Value, Value]) -> None:
        """Read other values in place of some, everywhere; chains are followed."""

        def final(value: Value | None) -> Value | None:
            while value is not None and value in mapping:
                value = mapping[value]
            return value

        for node in self.nodes:
            if any(v in mapping for v in node.inputs if v is not None):
                node.inputs = tuple(final(v) for v in node.inputs)
        self.outputs = [final(v) for v in self.outputs]
        self.effects = [(buffer, final(value)) for buffer, value in self.effects]  # type: ignore[misc]

    def copy(self) -> Program:
        """Nodes and values of its own; the same ops and captured tensors."""
        made = Program(self.name)
        new: dict[Value, Value] = {}
        for mine, theirs in ((made.inputs, self.inputs), (made.captures, self.captures)):
            for value in theirs:
                new[value] = Value(value.spec, tensor=value.tensor)
                new[value].name = value.name
                mine.append(new[value])
        for node in self.nodes:
            ins, specs = [None if v is None else new[v] for v in node.inputs], [v.spec for v in node.outputs]
            where = {"where": node.where, "scope": node.scope, "differentiable": node.differentiable}
            made.nodes.append(Node(node.op, ins, specs, **where))  # type: ignore[arg-type]
            made.nodes[-1].verified = node.verified
            new.update(zip(node.outputs, made.nodes[-1].outputs, strict=True))
        made.outputs = [None if v is None else new[v] for v in self.outputs]
        made.effects = [(new[a], new[b]) for a, b in self.effects]
        return made

    def names(self) -> dict[Value, str]:
        """A readable name for every value: its own, or %n."""
        found: dict[Value, str] = {}
        taken: dict[str, int] = {}
        for value in (*self.inputs, *self.captures):
            base = value.name or ("constant" if value.constant else "state")
            count = taken[base] = taken.get(base, 0) + 1
            found[value] = base if count == 1 else f"{base}.{count}"
        number = 0
        for node in self.nodes:
            for value in node.outputs:
                found[value] = f"%{number}"
                number += 1
        return found

    def text(self) -> str:
        """The program for people: one node a line, with shapes, attributes and the line of code it came from."""
        names = self.names()
        inputs = ", ".join(f"{names[v]}: {show_spec(v.spec)}" for v in self.inputs)
        lines = [f"program {self.name}({inputs})"]
        lines += [f"  {names[v]}: {show_spec(v.spec)} = captured" for v in self.captures]
        for node in self.nodes:
            outs = ", ".join(f"{names[v]}: {show_spec(v.spec)}" for v in node.outputs)
            ins = ", ".join("none" if v is None else names[v] for v in node.inputs)
            place = "  # " + " ".join(p for p in (node.scope, node.where) if p) if node.scope or node.where else ""
            lines.append(f"  {outs} = {show_op(node.op)}({ins}){place}")
            for inner in _inner_programs(node.op):
                lines += [f"    {line}" for line in inner.text().splitlines()]
        lines += [f"  {names[buffer]} <- {names[value]}" for buffer, value in self.effects]
        returned = ", ".join("none" if v is None else names[v] for v in self.outputs)
        return "\n".join([*lines, f"  return {returned}"])

    def __str__(self) -> str:
        return self.text()

    def sizes(self) -> dict[str, int]:
        """The symbolic sizes of the inputs, by name, with the example each was traced with."""
        return examples(n for v in self.inputs for n in v.spec.shape)

    # -- the serialised form -----------------------------------------------------------------------------------------
    def to_dict(self) -> dict[str, Any]:
        """Plain values, fit for JSON; captured tensors appear by name, their numbers are stored beside it."""
        number = {v: i for i, v in enumerate(self._values())}

        def refs(values: Iterable[Value | None]) -> list[int | None]:
            return [None if v is None else number[v] for v in values]

        return {
            "name": self.name,
            "sizes": self.sizes(),
            "inputs": [_value_to_dict(v) for v in self.inputs],
            "captures": [_value_to_dict(v) for v in self.captures],
            "nodes": [
                {**n.op.to_dict(), "in": refs(n.inputs), "out": [list(_spec_to_json(v.spec)) for v in n.outputs]}
                for n in self.nodes
            ],
            "outputs": refs(self.outputs),
            "effects": [refs(pair) for pair in self.effects],
        }

    @staticmethod
    def from_dict(data: dict[str, Any], tensor_of: Callable[[str], Tensor]) -> Program:
        """The program that `to_dict` wrote; `tensor_of(name)` gives the captured tensors."""
        program = Program(data["name"])
        sizes = data.get("sizes", {})
        program.inputs = [_value_from_dict(d, None, sizes) for d in data["inputs"]]
        program.captures = [_value_from_dict(d, tensor_of, sizes) for d in data["captures"]]
        values: list[Value] = [*program.inputs, *program.captures]

        def get(ref: int | None) -> Value | None:
            if ref is not None and not 0 <= ref < len(values):
                raise UsageError(f"program {program.name!r}: a reference to value {ref}, of {len(values)} so far")
            return None if ref is None else values[ref]

        for entry in data["nodes"]:
            attributes = {k: _with_dims(v, sizes) for k, v in entry.items() if k not in ("in", "out")}
            specs = [_spec_from_json(d, sizes) for d in entry["out"]]
            node = Node(Op.from_dict(attributes), [get(i) for i in entry["in"]], specs)
            program.nodes.append(node)
            values += node.outputs
        program.outputs = [get(i) for i in data["outputs"]]
        program.effects = [(get(a), get(b)) for a, b in data["effects"]]  # type: ignore[misc]
        return program

    def _values(self) -> Iterator[Value]:
        yield from self.inputs
        yield from self.captures
        for node in self.nodes:
            yield from node.outputs


def is_state(tensor: Tensor) -> bool:
    """Whether a tensor is a parameter, a buffer, or a leaf that is learned: its values change between runs."""
    return type(tensor) is not Tensor or tensor.requires_grad


def size_of(spec: Spec) -> int:
    """Bytes of an array of this spec."""
    return math.prod(map(int, spec.shape)) * spec.dtype.itemsize


_SHORT = {"float": "f", "bfloat": "bf", "int": "i", "uint": "u", "complex": "c", "bool": "bool"}


def symbolic(op: Op) -> tuple[str, ...]:
    """The expressions of the sizes in an op's attributes: ops that are equal at the example only differ here."""
    return tuple(dim.text for name in op.fields for dim in _dims_in(getattr(op, name)))


def _dims_in(value: Any) -> Iterator[Dim]:
    if isinstance(value, Dim):
        yield value
    elif isinstance(value, tuple):
        for part in value:
            yield from _dims_in(part)


def show_spec(spec: Spec) -> str:
    """``f32[128, 28, 28, 1]``."""
    name = spec.dtype.name
    kind = name.rstrip("0123456789_")
    short = _SHORT.get(kind, kind) + name[len(kind) :].strip("_")
    return f"{short}[{', '.join(map(str, spec.shape))}]"


def show_op(op: Op) -> str:
    """Name and the attributes that differ from their defaults: ``Conv{stride=(2, 2), padding=((1, 1), (1, 1))}``."""
    shown = [
        f"{name}={_brief(getattr(op, name))}"
        for name in op.fields
        if name not in op.defaults or getattr(op, name) != op.defaults[name]
    ]
    return op.op_name + (f"{{{', '.join(shown)}}}" if shown else "")


def _brief(value: Any) -> str:
    return value.name if isinstance(value, Program) else repr(value)


def _inner_programs(op: Op) -> list[Program]:
    """The programs that an op holds: branches of a conditional, the body of a loop."""
    return [p for p in (getattr(getattr(op, name), "program", None) for name in op.fields) if isinstance(p, Program)]


def _spec_to_json(spec: Spec) -> tuple[list[int | str], str]:
    return [n.text if isinstance(n, Dim) else n for n in spec.shape], spec.dtype.name


def _spec_from_json(data: Any, sizes: dict[str, int]) -> Spec:
    shape, dtype = data
    return Spec(tuple(Dim.parse(n, sizes) if isinstance(n, str) else n for n in shape), as_dtype(dtype))


def _with_dims(value: Any, sizes: dict[str, int]) -> Any:
    """JSON with every ``{"dim": text}`` read."""
    if isinstance(value, dict):
        return Dim.parse(value["dim"], sizes) if value.keys() == {"dim"} else value
    return [_with_dims(v, sizes) for v in value] if isinstance(value, list) else value


def _value_to_dict(value: Value) -> dict[str, Any]:
    shape, dtype = _spec_to_json(value.spec)
    return {"name": value.name, "shape": shape, "dtype": dtype}


def _value_from_dict(data: dict[str, Any], tensor_of: Callable[[str], Tensor] | None, sizes: dict[str, int]) -> Value:
    spec = _spec_from_json((data["shape"], data["dtype"]), sizes)
    value = Value(spec, tensor=None if tensor_of is None else tensor_of(data["name"]))
    value.name = data["name"]
    return value
