"""`Graph`: the ONNX graph under construction, and the layouts in which it holds the values of a program.

pdl keeps images as [N, H, W, C], ONNX as [N, C, H, W]. A value of three and more dimensions may therefore stand in the
graph in two forms: plain (the program's axes) and channels first. An emitter asks for the form it wants; if only the
other one is there, a Transpose is written, once per value, and constants are transposed here and now.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import reduce
from typing import Any, NamedTuple, TypeGuard

import numpy as np

from pdl.dims import Dim
from pdl.dtype import Array
from pdl.errors import UsageError
from pdl.export.onnx.registry import Entry, First
from pdl.ops.base import Spec
from pdl.program.ir import Value

PLAIN, FIRST = "plain", "first"


def to_first(rank: int) -> tuple[int, ...]:
    """The order of a plain value's axes in its channels-first form."""
    return (0, rank - 1, *range(1, rank - 1))


def to_last(rank: int) -> tuple[int, ...]:
    """The axes of [N, C, *spatial] in the order of [N, *spatial, C]."""
    return (0, *range(2, rank), 1)


def to_plain(rank: int) -> tuple[int, ...]:
    """The inverse of `to_first`."""
    return (0, *range(2, rank), 1)


class Written(NamedTuple):
    """A node as ONNX's NodeProto will hold it; an attribute may be a `Body`."""

    kind: str
    name: str
    domain: str
    inputs: list[str]
    outputs: list[str]
    attributes: dict[str, Any]


class Body(NamedTuple):
    """A graph inside a node: a branch of If or the body of Loop. Inputs and outputs are (name, dtype, shape)."""

    nodes: list[Written]
    inputs: list[tuple[str, Spec]]
    outputs: list[tuple[str, Spec]]


class Names:
    """Names that are each given once."""

    def __init__(self) -> None:
        self._taken: dict[str, int] = {}

    def unique(self, base: str) -> str:
        """`base`, or `base` with a number."""
        count = self._taken.get(base)
        self._taken[base] = 0 if count is None else count + 1
        return base if count is None else self.unique(f"{base}_{count + 1}")


class Graph:
    """Nodes and constants written so far. `outer`: the graph around the body of an If or Loop.

    opset     the version of ONNX's operators
    scope     path of the module whose op is being written; names of nodes begin with it
    nodes     in order
    constants name -> array; those of inner graphs are the outermost one's
    """

    def __init__(self, opset: int, outer: Graph | None = None) -> None:
        self.opset, self.outer = opset, outer
        self.scope = ""
        self.nodes: list[Written] = []
        self.names: Names = outer.names if outer else Names()
        self.constants: dict[str, Array] = outer.constants if outer else {}
        self.uses: dict[Value, int] = outer.uses if outer else {}
        self.symbols: dict[str, tuple[str, int]] = outer.symbols if outer else {}  # size's name -> (input, axis)
        #: of a size that is only a factor of others, as b of n b -> (input, axis, the product)
        self.factors: dict[str, tuple[str, int, Dim]] = outer.factors if outer else {}
        self._sizes: dict[str, str] = {}
        self._forms: dict[Value, dict[str, str]] = {}
        self._arrays: dict[Value, Array] = {}
        self._known: dict[Any, str] = outer._known if outer else {}
        self._same: dict[Value, Value] = {}
        self._flat: dict[Value, Value] = {}
        self.outputs: tuple[Value, ...] = ()  # of the op that is being written
        self.where: str = outer.where if outer else ""  # the line of code that called it
        self.faults: list[tuple[str, str]] = outer.faults if outer else []  # what has no ONNX form, and where
        self.notes: list[str] = outer.notes if outer else []

    # -- nodes ---------------------------------------------------------------------------------------------------------
    def node(self, kind: str, *inputs: str | None, **attributes: Any) -> str:
        """Write a node of one output; the output's name. Attributes that are None are left out."""
        return self.nodes_of(kind, *inputs, outputs=1, **attributes)[0]

    def nodes_of(self, kind: str, *inputs: str | None, outputs: int, domain: str = "", **attributes: Any) -> list[str]:
        """`node` for an operator of several outputs."""
        name = self.names.unique(f"{self.scope}/{kind}" if self.scope else kind)
        made = [f"{name}:{i}" for i in range(outputs)] if outputs > 1 else [f"{name}:out"]
        given = ["" if x is None else x for x in inputs]
        while given and not given[-1]:
            given.pop()
        kept = {k: require_fixed(v) for k, v in attributes.items() if v is not None}
        self.nodes.append(Written(kind, name, domain, given, made, kept))
        return list(made)

    def require(self, opset: int) -> None:
        """Raise where the file's opset is older."""
        if self.opset < opset:
            raise UsageError(f"needs opset {opset}")

    def constant(self, value: Any, dtype: Any = None, name: str | None = None) -> str:
        """The name of an initialiser with these numbers; equal ones are one."""
        array = np.ascontiguousarray(require_fixed(value), dtype).reshape(np.shape(value))
        key = (array.dtype.name, array.shape, array.tobytes())
        if key not in self._known:
            self._known[key] = self.names.unique(name or "constant")
            self.constants[self._known[key]] = array
        return self._known[key]

    def like(self, value: complex, spec: Spec, rank: int = 0) -> str:
        """A constant of one element in a value's dtype."""
        return self.constant(np.full((1,) * rank, value, spec.dtype))

    def reduce(self, kind: str, x: str, axes: Sequence[int], *, keepdims: bool = True) -> str:
        """A Reduce node: its axes are an attribute before opset 18 (ReduceSum: 13) and an input since."""
        if self.opset >= 18 or kind == "ReduceSum":
            return self.node(kind, x, self.constant(list(axes), np.int64), keepdims=int(keepdims))
        return self.node(kind, x, axes=list(axes), keepdims=int(keepdims))

    def transpose(self, x: str, order: Sequence[int]) -> str:
        """x, or its Transpose where `order` changes it."""
        return x if tuple(order) == tuple(range(len(order))) else self.node("Transpose", x, perm=list(order))

    def cast(self, x: str, dtype: Any) -> str:
        """x in another dtype."""
        return self.node("Cast", x, to=onnx_dtype(dtype))

    def mark(self) -> int:
        """The place to which `cut_back` removes what an emitter wrote before it gave up."""
        return len(self.nodes)

    def cut_back(self, mark: int) -> None:
        """Remove the nodes written since `mark`, and forget their outputs."""
        gone = {name for node in self.nodes[mark:] for name in node.outputs}
        del self.nodes[mark:]
        for forms in self._forms.values():
            for form in [form for form, name in forms.items() if name in gone]:
                del forms[form]
        self._sizes = {text: name for text, name in self._sizes.items() if name not in gone}

    # -- values --------------------------------------------------------------------------------------------------------
    def put(self, value: Value, entry: Entry) -> None:
        """Where an output of the op just written is found."""
        if entry is not None:
            form, name = (FIRST, entry.name) if isinstance(entry, First) else (PLAIN, entry)
            form = form if len(value.spec.shape) > 2 else PLAIN
            self._forms.setdefault(value, {})[form] = name

    def put_input(self, value: Value, name: str, form: str) -> None:
        """An input of the graph, in this form."""
        self._forms[value] = {form: name}

    def same(self, value: Value, other: Value) -> None:
        """From now on `value` is `other`."""
        self._same[value] = other

    def put_array(self, value: Value, array: Array) -> None:
        """The value's numbers are known."""
        self._arrays[value] = array

    def resolve(self, value: Value) -> Value:
        """The value that this one is another name of."""
        while (found := self._lookup("_same", value)) is not None:
            value = found
        return value

    def _lookup(self, table: str, value: Value) -> Any:
        found = getattr(self, table).get(value)
        return found if found is not None or self.outer is None else self.outer._lookup(table, value)

    def array(self, value: Value | None) -> Array | None:
        """The numbers of a captured tensor, or of what was computed from such; None if they come with the inputs."""
        if value is None:
            return None
        value = self.resolve(value)
        return value.tensor._data if value.tensor is not None else self._lookup("_arrays", value)

    def has(self, value: Value, form: str) -> bool:
        """Whether the value stands in the graph in this form."""
        return form in (self._lookup("_forms", self.resolve(value)) or {})

    def written(self, value: Value) -> bool:
        """Whether the value can be had."""
        value = self.resolve(value)
        return self.array(value) is not None or any(self._lookup(t, value) for t in ("_forms", "_flat"))

    def plain(self, value: Value) -> str:
        """The value in the program's own layout."""
        return self._form(self.resolve(value), PLAIN)

    def first(self, value: Value) -> str:
        """The value channels first."""
        return self._form(self.resolve(value), FIRST)

    def optional(self, value: Value | None) -> str | None:
        """The plain form of an input that may be absent."""
        return None if value is None else self.plain(value)

    def _form(self, value: Value, form: str) -> str:
        rank = len(value.spec.shape)
        form = PLAIN if rank < 3 else form
        forms = self._lookup("_forms", value) or {}
        if form in forms:
            return str(forms[form])
        array, image = self.array(value), self._lookup("_flat", value)
        if array is not None:
            made = self.constant(array.transpose(to_first(rank)) if form == FIRST else array, name=value.name)
        elif image is not None:
            made = self.node("Flatten", self.plain(image), axis=1)
        elif form == FIRST:
            made = self.transpose(self._form(value, PLAIN), to_first(rank))
        elif FIRST in forms:
            made = self.transpose(forms[FIRST], to_plain(rank))
        else:
            raise UsageError(f"export to onnx: {value!r} is read before it is written")
        self._forms.setdefault(value, dict(forms))[form] = made
        return made

    def defer_flat(self, value: Value, image: Value) -> None:
        """`value` is `image` flattened to [N, H W C]; it is written when, and as, somebody asks for it."""
        self._flat[value] = self.resolve(image)

    def flattened(self, value: Value) -> tuple[str, tuple[int, ...]] | None:
        """For a deferred flat value: the image flattened to [N, C H W], and (H, W, C)."""
        image = self._lookup("_flat", self.resolve(value))
        if image is None or self.has(value, PLAIN):
            return None
        forms = self._forms.setdefault(self.resolve(value), {})
        if FIRST not in forms:
            forms[FIRST] = self.node("Flatten", self.first(image), axis=1)
        return forms[FIRST], image.spec.shape[1:]

    def read(self, index: int) -> bool:
        """Whether anybody reads an output of the op that is being written."""
        return self.readers(self.outputs[index]) > 0

    def readers(self, value: Value) -> int:
        """How often a value is read."""
        return self.uses.get(value, 0)

    # -- several values in one layout ----------------------------------------------------------------------------------
    def prefers_first(self, *values: Value) -> bool:
        """Whether one of the values that are not constant stands channels first and not plain."""
        return any(
            self.array(v) is None and self.has(v, FIRST) and not self.has(v, PLAIN) and len(v.spec.shape) > 2
            for v in values
        )

    def alike(self, *values: Value) -> tuple[list[str], Callable[[str], Entry]]:
        """The values in one layout, fit to be broadcast together, and what to wrap a result of their rank in."""
        rank = max(len(v.spec.shape) for v in values)
        if not self.prefers_first(*[v for v in values if len(v.spec.shape) == rank]):
            return [self.plain(v) for v in values], str
        return [self._spread(v, rank) for v in values], First

    def _spread(self, value: Value, rank: int) -> str:
        """A value channels first, among those of `rank`: leading dimensions of size 1 added."""
        mine = len(value.spec.shape)
        array = self.array(value)
        if array is not None and mine:
            whole = array.reshape((1,) * (rank - mine) + array.shape)
            return self.constant(whole.transpose(to_first(rank)), name=value.name)
        if mine == rank or not mine:
            return self.first(value)
        wide = self.node("Unsqueeze", self.plain(value), self.constant(list(range(rank - mine)), np.int64))
        return self.transpose(wide, to_first(rank))

    def made_first(self, value: Value) -> bool:
        """Whether the value was made, or given, channels first."""
        forms = self._lookup("_forms", self.resolve(value)) or {PLAIN: ""}
        return len(value.spec.shape) > 2 and next(iter(forms)) == FIRST

    def either(self, value: Value) -> tuple[str, Callable[[str], Entry]]:
        """The value in the form it has, and what to wrap a result of the same axes in."""
        names, wrap = self.alike(value)
        return names[0], wrap

    def axis(self, value: Value, axis: int) -> tuple[str, int, Callable[[str], Entry]]:
        """`either`, with the place of an axis in that form."""
        rank = len(value.spec.shape)
        name, wrap = self.either(value)
        return name, to_first(rank).index(axis % rank) if wrap is First else axis % max(1, rank), wrap

    def without(self, value: Value, axes: Iterable[int]) -> tuple[str, list[int], Callable[[str], Entry]]:
        """For an op that drops `axes`: the value, the axes in its form, and the wrapper of the result.

        It stays channels first where the dimensions left are then in the result's plain or channels-first order.
        """
        dropped = sorted(axes)
        rank = len(value.spec.shape)
        if self.prefers_first(value):
            left = [a for a in to_first(rank) if a not in dropped]
            order = [sorted(left).index(a) for a in left]
            places = [to_first(rank).index(a) for a in dropped]
            if order == sorted(order):
                return self.first(value), places, str
            if len(order) > 2 and tuple(order) == to_first(len(order)):
                return self.first(value), places, First
        return self.plain(value), dropped, str

    # -- sizes ---------------------------------------------------------------------------------------------------------
    def sizes(self, numbers: Sequence[int]) -> str:
        """A 1-D int64 tensor of sizes, some of which may be known at run time only."""
        if not any(symbolic(n) for n in numbers):
            return self.constant([int(n) for n in numbers], np.int64)
        parts: list[str] = []
        run: list[int] = []
        for n in numbers:
            if symbolic(n):
                parts += [self.constant(run, np.int64)] if run else []
                parts.append(self.size(n))
                run = []
            else:
                run.append(int(n))
        parts += [self.constant(run, np.int64)] if run else []
        return parts[0] if len(parts) == 1 else self.node("Concat", *parts, axis=0)

    def size(self, n: int) -> str:
        """One size as a tensor [1] of int64."""
        if not symbolic(n):
            return self.constant([int(n)], np.int64)
        if n.text not in self._sizes:
            self._sizes[n.text] = self._polynomial(n.expression)
        return self._sizes[n.text]

    def _polynomial(self, expression: Any) -> str:
        """The sum of its products as nodes (see `pdl.dims.Poly`)."""
        terms: list[str] = []
        for product, factor in expression:
            parts = [self._atom(atom) for atom in product]
            if factor != 1 or not parts:
                parts.append(self.constant([factor], np.int64))
            terms.append(reduce(lambda a, b: self.node("Mul", a, b), parts))
        return reduce(lambda a, b: self.node("Add", a, b), terms) if terms else self.constant([0], np.int64)

    def _atom(self, atom: Any) -> str:
        """A size by its name, a quotient rounded down, or what of an expression is above 0."""
        if isinstance(atom, str):
            if atom not in self._sizes:
                name, axis, *product = self.symbols.get(atom) or self.factors[atom]
                whole = self.node("Shape", name)
                made = self.node("Gather", whole, self.constant([axis], np.int64), axis=0)
                for n in product:
                    made = self.node("Div", made, self.size(n // Dim.symbol(atom, 1)))
                self._sizes[atom] = made
            return self._sizes[atom]
        if atom[0] == "max":
            return self.node("Max", self._polynomial(atom[1]), self.constant([0], np.int64))
        a, b = self._polynomial(atom[1]), self._polynomial(atom[2])
        rest = self.node("Mod", a, b)  # of the divisor's sign; ONNX's Div rounds towards 0
        return self.node("Div", self.node("Sub", a, rest), b)


def symbolic(n: Any) -> TypeGuard[Dim]:
    """Whether a size is known at run time only."""
    return isinstance(n, Dim)


def fixed(n: int) -> int:
    """A size as a plain number; raises where it is known at run time only."""
    if symbolic(n):
        raise UsageError(f"needs a fixed size here, and {n} is known only when the model runs")
    return int(n)


def require_fixed(value: Any) -> Any:
    """`value`; raises where a list in it holds a symbolic size, which would otherwise become its example."""
    if isinstance(value, Dim):
        fixed(value)
    if isinstance(value, list | tuple) and not isinstance(value, Body):
        for v in value:
            require_fixed(v)
    return value


#: TensorProto.DataType of the ONNX standard
DTYPES = {
    "float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7, "bool": 9, "float16": 10,
    "float64": 11, "uint32": 12, "uint64": 13, "bfloat16": 16,
}  # fmt: skip


def onnx_dtype(dtype: Any) -> int:
    """ONNX's number of a dtype."""
    name = np.dtype(dtype).name
    if name not in DTYPES:
        raise UsageError(f"{name} has no operators in ONNX")
    return DTYPES[name]
