"""Training on the numbers that bytes have (Jacob et al., arXiv 1712.05877): the net that the exporter would put on
bytes, batch norms folded into weights, with every rounding in its forward part, as a module that is trained.

In evaluation it rounds by `QuantizeLinear` and `DequantizeLinear` where `calibrate` writes them: a trace of it is the
program of pairs, of which the bundle on bytes is made. In training the gradient goes straight through a rounding, and
is 0 where a range clips (Bengio et al., arXiv 1308.3432).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from pdl import ops
from pdl.dims import Dim
from pdl.dtype import as_dtype, float32, int8, uint8
from pdl.errors import TraceError, UsageError
from pdl.export.quantise.calibrate import PREPARE, Batch, _kept, observe, product_name
from pdl.export.quantise.observe import METHODS
from pdl.export.symbolic import trace_symbolic
from pdl.nn.module import Buffer, Module, Parameter, evaluating
from pdl.ops.activation import Activation
from pdl.ops.base import OPS, Spec, apply, assign
from pdl.ops.conv import Conv
from pdl.ops.elementwise import Clip
from pdl.ops.inference import ConvThen, LinearThen
from pdl.ops.linalg import Linear
from pdl.ops.quant import DequantizeLinear, QuantizeLinear
from pdl.program.ir import Node, Program, Value
from pdl.program.passes import run_passes
from pdl.program.passes.quantise import points
from pdl.program.specialise import bind, specialise
from pdl.runtime.plan import frozen
from pdl.tensor import Tensor, no_grad

LEAST = 1e-12  # of a scale
SHARE = 0.01  # of a batch in the ranges


class _Held(Module):
    """A place for tensors below a path; what else is asked of it the net's own module there knows."""

    def __init__(self, own: Any) -> None:
        self._own = (own,)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._own[0], name)


class _Part(Module):
    """The tensors of what a method of a net answers, in their order."""

    def __init__(self, net: Module, method: str) -> None:
        self.net, self.method = net, method
        self.train(net.training)

    def forward(self, *xs: Tensor) -> tuple[Tensor, ...]:
        return tuple(_tensors(getattr(self.net, self.method)(*xs)))


class Rounded(Module):
    """The net of `net` with the roundings of int8; its outputs are those of the net's deployed form.

    A net that names a method in `rounded_in` (a detector its `predictions`) is rounded there, and what it makes of that
    method's tensors, for answers and for losses, is computed as ever.

    inputs   of the net, in order, with symbols for the sizes that may change
    keep     products that stay in floats: "first", "last", "both" or ""

    Parameters are the weights and biases of the products, norms folded in, under the names of their modules; `low` and
    `high` [P] are the ranges of activations, moving means over training batches. It is of the net's class, too, and has
    its attributes, by which tasks know it. UsageError where there is nothing to put on bytes.
    """

    def __new__(cls, net: Module, inputs: Mapping[str, Spec], keep: str = "") -> Rounded:
        """An instance of both classes."""
        own: dict[str, Any] = {"__doc__": cls.__doc__}
        if method := getattr(net, "rounded_in", ""):
            own |= {"forward": type(net).forward, method: cls._answered}
        both: Any = type(f"Rounded{type(net).__name__}", (cls, type(net)), own)
        made: Rounded = object.__new__(both)
        return made

    def __init__(self, net: Module, inputs: Mapping[str, Spec], keep: str = "") -> None:
        for name, value in net.__dict__.items():
            if not name.startswith("_") and not isinstance(value, Module | Tensor):
                object.__setattr__(self, name, value)
        self._net = (net,)
        method = getattr(net, "rounded_in", "")
        traced, _ = trace_symbolic(_Part(net, method) if method else net, inputs)
        learned = {id(p._data): name for name, p in net.named_parameters()}
        captured = {v.name: learned[id(v.tensor._data)] for v in traced.captures if id(v.tensor._data) in learned}  # type: ignore[union-attr]
        program = self._program = run_passes(frozen(traced), PREPARE)
        at = points(program, _kept(program, keep))
        if not at.products:
            raise UsageError("the net has no convolution or linear layer with float32 weights to put on bytes")
        self._products, self._places = set(at.products), {value: n for n, value in enumerate(at.values)}
        self._named: dict[Value, Parameter | Buffer] = {}
        taken: set[str] = set()
        for node in at.products:
            for word, value in zip(("weight", "bias"), node.inputs[1:3], strict=False):
                if value is not None and value not in self._named:
                    name = product_name(node).removeprefix("net." if method else "")
                    self._hold(_unused(f"{name}.{word}", taken), value, learned=True)
        for value in program.captures:
            if value not in self._named and value.spec.dtype == float32:
                path = captured.get(value.name)
                self._hold(_unused(path or "constants.value", taken), value, learned=path is not None)
        self.low, self.high = (Buffer(np.zeros(len(at.values), np.float32), exact=True) for _ in range(2))
        self._plain: dict[Any, Program] = {}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return getattr(self._net[0], name)

    def _hold(self, path: str, value: Value, *, learned: bool) -> None:
        assert value.tensor is not None
        made = (Parameter if learned else Buffer)(np.array(value.tensor._data))
        *folders, last = path.split(".")
        owner: Module = self
        own: Any = self._net[0]
        for name in folders:
            own = getattr(own, name, None)
            if name not in owner.__dict__:
                setattr(owner, name, _Held(own))
            owner = owner.__dict__[name]
        setattr(owner, last, made)
        self._named[value] = made

    def deployed(self) -> Module:
        """Itself: it is made of the deployed form."""
        return self

    # -- ranges --------------------------------------------------------------------------------------------------------
    def calibrate(self, batches: Sequence[Batch], method: str = "mse") -> None:
        """Set the ranges by what activations are on samples, in floats; `method`: one of `METHODS`."""
        if method not in METHODS:
            raise UsageError(f"method={method!r} must be one of {', '.join(METHODS)}")
        for value, made in self._named.items():
            value.tensor._data[...] = made._data  # type: ignore[union-attr]
        for n, histogram in enumerate(observe(self._program, list(self._places), batches)):
            self.low._data[n], self.high._data[n] = METHODS[method](histogram)

    def _scales(self) -> tuple[Tensor, Tensor]:
        """Scale float32 [P] and zero point uint8 [P] of every activation: 0 is one of the bytes."""
        low, high = ops.minimum(self.low, 0.0), ops.maximum(self.high, 0.0)
        scale = ops.maximum((high - low) * (1 / 255), LEAST)
        return scale, ops.astype(ops.clip(ops.round(-low / scale), 0.0, 255.0), uint8)

    # -- running -------------------------------------------------------------------------------------------------------
    def forward(self, *xs: Tensor) -> Tensor | tuple[Tensor, ...]:
        """The outputs of the deployed net, rounded on the way."""
        found = self._rounded(xs)
        return found[0] if len(found) == 1 else found

    def _answered(self, *xs: Tensor) -> Any:
        """What the method in `rounded_in` answers, with rounded tensors. The net's own are computed for what is beside
        them, such as places; a program leaves out what nothing reads."""
        net = self._net[0]
        with no_grad(), evaluating(net):
            whole = getattr(net, net.rounded_in)(*xs)  # type: ignore[attr-defined]
        return _replaced(whole, iter(self._rounded(xs)))

    def _rounded(self, xs: Sequence[Tensor]) -> tuple[Tensor, ...]:
        program = self._at(xs)
        scales, zeros = self._scales()
        seen: dict[int, Tensor] = {}

        def rounded(x: Tensor, theirs: Value) -> Tensor:
            place = self._places.get(theirs)
            if place is None:
                return x
            seen[place] = x
            return self._activation(x, scales[place], zeros[place])

        values: dict[Value, Any] = {}
        for mine, theirs in zip(program.captures, self._program.captures, strict=True):
            values[mine] = self._named.get(theirs, mine.tensor)
        for x, mine, theirs in zip(xs, program.inputs, self._program.inputs, strict=True):
            values[mine] = rounded(x, theirs)
        for node, base in zip(program.nodes, self._program.nodes, strict=True):
            ins = [None if v is None else values[v] for v in node.inputs]
            if base in self._products:
                assert ins[1] is not None
                ins[1] = self._weight(ins[1])
            made = _parts(node, ins)
            for y, mine, theirs in zip(made, node.outputs, base.outputs, strict=True):
                values[mine] = rounded(y, theirs)
        if self.training:
            self._track(seen)
        return tuple(values[v] for v in program.outputs if v is not None)

    def _at(self, xs: Sequence[Tensor]) -> Program:
        """The program for these sizes, which may be symbols in a trace."""
        shapes = [x.shape for x in xs]
        key = tuple(tuple(n.text if isinstance(n, Dim) else n for n in shape) for shape in shapes)
        if key not in self._plain:
            self._plain = {key: specialise(self._program, bind(self._program, shapes))}
        return self._plain[key]

    def _activation(self, x: Tensor, scale: Tensor, zero: Tensor) -> Tensor:
        q = apply(DequantizeLinear(), apply(QuantizeLinear(), x.detach(), scale, zero), scale, zero)
        if not self.training:
            return q  # type: ignore[no-any-return]
        first = ops.astype(zero, float32)
        low, high = (0.0 - first) * scale, (255.0 - first) * scale
        return _straight(ops.minimum(ops.maximum(x, low), high), q)

    def _weight(self, w: Tensor) -> Tensor:
        most = ops.max(ops.abs(w.detach()), axis=tuple(range(w.ndim - 1)))
        scale, zero = ops.maximum(most * (1 / 127), LEAST), Tensor(np.zeros(w.shape[-1], int8))
        axis = w.ndim - 1
        q = apply(DequantizeLinear(axis), apply(QuantizeLinear(axis), w.detach(), scale, zero), scale, zero)
        return _straight(w, q) if self.training else q  # type: ignore[no-any-return]

    def _track(self, seen: Mapping[int, Tensor]) -> None:
        """Move the ranges by `SHARE` towards the ends of this batch."""
        order = [seen[n].detach() for n in range(len(self._places))]
        for buffer, end in ((self.low, ops.min), (self.high, ops.max)):
            now = ops.stack([end(x) for x in order])
            assign(buffer, ops.running_average(buffer, now, share=SHARE))


def _tensors(found: Any) -> Iterator[Tensor]:
    """The tensors of an answer of tuples, lists, dictionaries and bound functions, in their order. UsageError for what
    may hide others."""
    if isinstance(found, Tensor):
        yield found
    elif isinstance(found, Mapping | tuple | list | partial):
        for each in _inside(found):
            yield from _tensors(each)
    elif not (found is None or isinstance(found, np.ndarray | np.generic | int | float | str)):
        raise UsageError(f"a net that learns with roundings cannot answer {type(found).__name__}: tensors may be in it")


def _inside(found: Any) -> Sequence[Any]:
    if isinstance(found, partial):
        return [*found.args, *found.keywords.values()]
    return list(found.values()) if isinstance(found, Mapping) else found


def _replaced(found: Any, others: Iterator[Tensor]) -> Any:
    """The answer with other tensors in its places."""
    if isinstance(found, Tensor):
        return next(others)
    if not isinstance(found, Mapping | tuple | list | partial):
        return found
    made = [_replaced(each, others) for each in _inside(found)]
    if isinstance(found, partial):
        count = len(found.args)
        return partial(found.func, *made[:count], **dict(zip(found.keywords, made[count:], strict=True)))
    if isinstance(found, Mapping):
        return dict(zip(found, made, strict=True))
    return type(found)(*made) if hasattr(found, "_fields") else type(found)(made)


def _straight(x: Tensor, q: Tensor) -> Tensor:
    """q, with the gradient of x."""
    return x + (q - x.detach()).detach()


def _parts(node: Node, ins: Sequence[Any]) -> tuple[Any, ...]:
    """The outputs of a node; a product with what follows it as ops that have gradients."""
    op: Any = node.op
    if not isinstance(op, ConvThen | LinearThen):
        if not op.differentiable and any(x is not None and x.requires_grad for x in ins):
            raise TraceError(f"{type(op).__name__} has no gradient, so nothing before it can be trained", node.where)
        made = apply(op, *(_given(ins) if isinstance(op, Conv | Linear) else ins))
        return made if isinstance(made, tuple) else (made,)
    *inputs, residual = ins
    window = {n: getattr(op, n) for n in ("stride", "padding", "dilation", "groups") if hasattr(op, n)}
    y = apply(Conv(**window) if window else Linear(), *_given(inputs))
    y = y if residual is None else y + residual
    if op.activation == "clip":
        low, high = (None if math.isinf(p) else p for p in op.parameters)
        return (apply(Clip(low, high), y),)
    named = (a for a in OPS.values() if issubclass(a, Activation) and a.kernel == op.activation)
    return (y if not op.activation else apply(next(named)(), y),)


def _given(ins: Sequence[Any]) -> Sequence[Any]:
    """Without a bias that is not there."""
    return ins if ins[-1] is not None else ins[:-1]


def _unused(name: str, taken: set[str]) -> str:
    """The name, or with a number behind it where it is taken."""
    made, count = name, 2
    while made in taken:
        made, count = f"{name}{count}", count + 1
    taken.add(made)
    return made


# -- as plain values ---------------------------------------------------------------------------------------------------
def described(inputs: Mapping[str, Spec]) -> dict[str, list[int | str]]:
    """Inputs for a recipe: {"image": ["float32", "n=3", 32, 32, 3]}: dtype, then sizes, of symbols with an example."""
    return {name: [spec.dtype.name, *_sizes(spec)] for name, spec in inputs.items()}


def _sizes(spec: Spec) -> Iterator[int | str]:
    for n in spec.shape:
        yield f"{n.text}={int(n)}" if isinstance(n, Dim) else int(n)


def inputs_of(given: Mapping[str, Sequence[int | str]]) -> dict[str, Spec]:
    """What `described` wrote."""
    found = {}
    for name, (dtype, *sizes) in given.items():
        shape = []
        for size in sizes:
            symbol, _, example = str(size).partition("=")
            shape.append(Dim.symbol(symbol, int(example)) if example else int(symbol))
        found[name] = Spec(tuple(shape), as_dtype(str(dtype)))
    return found
