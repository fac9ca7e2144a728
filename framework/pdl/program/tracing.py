"""Tracing: run Python code once on tensors that have a shape and no values, and write down the ops it calls."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NoReturn

from pdl import random
from pdl.autograd.anomaly import begins_trace, user_line
from pdl.dims import symbolic
from pdl.dtype import DType
from pdl.errors import GradientError, TraceError
from pdl.ops.base import Identity, Op, Spec, _quiet, apply
from pdl.ops.sparse import SparseGrad
from pdl.program.ir import Node, Program, Value, is_state
from pdl.program.tree import is_plain, leaves, rebuild
from pdl.tensor import Tensor, TensorLike, _GradMode, _Tracing, casting, set_grad_enabled


class Symbol(Tensor):
    """A tensor in a trace: shape and dtype are known, values are not; reading them raises `TraceError`."""

    __slots__ = ("value",)

    def __init__(self, value: Value, requires_grad: bool = False) -> None:
        self.value = value
        self._index, self._hooks, self.grad = 0, None, None
        self._requires_grad = requires_grad

    def _no_values(self) -> NoReturn:
        raise TraceError("Python needs the values of a tensor, which are known only when the program runs", user_line())

    def _no_tape(self) -> NoReturn:
        raise TraceError("gradients are taken inside the traced code", user_line())

    _data: Any = property(_no_values)
    _node: Any = property(_no_tape)

    @property  # type: ignore[misc]
    def data(self) -> Any:  # type: ignore[override]
        """Refused: a symbol has no values."""
        self._no_values()

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of all dimensions."""
        return self.value.spec.shape

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.value.spec.dtype

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        return len(self.value.spec.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.value.spec.shape)

    @property
    def is_leaf(self) -> bool:
        """True for inputs of the program."""
        return self.value.node is None

    @property
    def requires_grad(self) -> bool:
        """Whether a gradient flows to this value."""
        return self._requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        raise TraceError("requires_grad is set on a tensor inside the traced code", user_line())

    def numpy(self) -> Any:
        """Refused: there is no array yet."""
        self._no_values()

    def detach(self) -> Tensor:
        """The same value; no gradient flows through it."""
        return detached(self)

    def backward(self, *args: Any, **kwargs: Any) -> None:
        """Refused: `CompiledStep` appends the gradient itself."""
        self._no_tape()

    def register_hook(self, hook: Any) -> Any:
        """Refused: the program runs no Python."""
        raise TraceError("a gradient hook is Python code that must run at every step", user_line())

    def __add__(self, other: TensorLike) -> Tensor:
        return NotImplemented if isinstance(other, SparseGrad) else Tensor.__add__(self, other)

    def __len__(self) -> int:
        if not self.shape:
            self._no_values()
        return self.shape[0]

    def __setitem__(self, key: Any, value: Any) -> None:
        raise TraceError("assignment into a tensor; use pdl.where or pdl.scatter", user_line())

    def __repr__(self) -> str:
        return f"Symbol({self.value!r})"


class Opaque:
    """Stands in a trace for an argument that is neither array nor number, such as a list of file names."""

    def __init__(self, kind: str) -> None:
        self.__dict__["_kind"] = kind

    def __getattr__(self, name: str) -> NoReturn:
        raise TraceError(
            f"the traced code uses an argument of type {self._kind}, which no program can take", user_line()
        )

    def _refuse(self, *args: Any) -> NoReturn:
        self.__getattr__("")

    __iter__ = __len__ = __getitem__ = __bool__ = __eq__ = __str__ = __call__ = _refuse  # type: ignore[assignment]
    __hash__ = None  # type: ignore[assignment]


class Recorder:
    """Writes a program while it is the thread's recorder (`with recorder.active():`)."""

    def __init__(self, name: str = "program", names: Mapping[int, str] | None = None) -> None:
        self.program = Program(name)
        self.names = dict(names or {})  # id of a captured tensor or module -> its path
        self.captured: dict[Any, Value] = {}
        self.now: dict[int, Value] = {}  # what a buffer will hold after the assignments so far
        self.learned: set[Value] = set()  # inputs that gradients are wanted for
        self._scopes: list[str] = []
        self._where: str | None = None  # the place that gradients are being written for
        self._alive: list[Any] = []  # captured objects, so that no id is given twice

    @contextmanager
    def active(self) -> Iterator[Recorder]:
        """Record the ops called in this thread inside the block. It may lie in the body of an op, as where a gradient
        is made when it is first wanted."""
        outer, _Tracing.recorder = _Tracing.recorder, self
        try:
            with random.refused(self._no_random), _quiet.anew():
                yield self
        finally:
            _Tracing.recorder = outer

    # -- called by the framework ---------------------------------------------------------------------------------------
    def record(self, op: Op, inputs: tuple[Tensor | None, ...]) -> Any:
        """The outputs of an op as symbols; None where it depends on constants alone and may be run now."""
        given = any(x is not None and (isinstance(x, Symbol) or is_state(x)) for x in inputs)
        known = not (given or op.stateful or op.recorded)
        if known and not any(symbolic(getattr(op, name)) for name in op.fields):
            return None
        if op.dynamic:
            name = type(op).__name__
            raise TraceError(f"the shape of the result of {name} depends on values", self.where())
        values = [None if x is None else self.value_of(x) for x in inputs]
        made = op.infer(*[None if v is None else v.spec for v in values])
        specs = (made,) if isinstance(made, Spec) else tuple(made)
        flows = _GradMode.enabled and op.differentiable and any(x is not None and x.requires_grad for x in inputs)
        scope = self._scopes[-1] if self._scopes else ""
        node = Node(op, values, specs, where=self.where(), scope=scope, differentiable=flows)
        self.program.nodes.append(node)
        outs = tuple(Symbol(v, flows and v.spec.dtype.kind not in "iub") for v in node.outputs)
        return outs[0] if len(outs) == 1 else outs

    def compose_vjp(self, function: Callable[..., Any], g: Any, ins: tuple[Tensor | None, ...]) -> tuple[Any, ...]:
        """Vector-Jacobian product of a function written in ops: its nodes, then their gradients."""
        with set_grad_enabled(True):
            xs = tuple(None if x is None else self.alias(x) for x in ins)
            start = len(self.program.nodes)
            ys = function(*xs)
        ys, gs = (ys, g) if isinstance(ys, tuple) else ((ys,), (g,))
        pairs = [(y, d) for y, d in zip(ys, gs, strict=True) if d is not None and y.requires_grad]
        wanted = [x if x is not None and x.requires_grad else None for x in xs]
        return tuple(self.gradient(pairs, wanted, start))

    def assign(self, target: Tensor, value: Tensor) -> None:
        """After the program has run, `target` holds `value`."""
        if isinstance(target, Symbol):
            raise TraceError("assignment into the result of an op", user_line())
        buffer, new = self.capture(target), self.value_of(value)
        if buffer.spec != new.spec:
            raise TraceError(f"assignment of {new.spec} to a buffer of {buffer.spec}", user_line())
        self.now[id(target)] = new
        effects = [pair for pair in self.program.effects if pair[0] is not buffer]
        self.program.effects = [*effects, (buffer, new)]

    def check_read(self, tensor: Tensor) -> None:
        """Raise where Python reads the values of a parameter or buffer: they change, the program would not."""
        if is_state(tensor) and not isinstance(tensor, Symbol):
            name = self.names.get(id(tensor), "a parameter or buffer")
            raise TraceError(f"Python reads the values of {name}, which change between steps", user_line())

    def check_write(self, tensor: Tensor) -> None:
        """Raise where Python writes into a parameter or buffer: it would happen once, and not when the program runs."""
        if is_state(tensor):
            name = self.names.get(id(tensor), "a parameter or buffer")
            raise TraceError(f"Python writes into {name}; use pdl.ops.base.assign, which is recorded", user_line())

    def detach(self, tensor: Tensor) -> Tensor:
        """A parameter or buffer without its gradient; its values are read when the program runs."""
        return detached(tensor)

    @contextmanager
    def scope(self, module: Any) -> Iterator[None]:
        """Nodes written inside belong to this module."""
        self._scopes.append(self.names.get(id(module)) or type(module).__name__)
        try:
            yield
        finally:
            self._scopes.pop()

    # -- values --------------------------------------------------------------------------------------------------------
    def input(self, spec: Spec, name: str, requires_grad: bool = False) -> Symbol:
        """A new input of the program."""
        value = Value(spec)
        value.name = name
        self.program.inputs.append(value)
        if requires_grad:
            self.learned.add(value)
        return Symbol(value, requires_grad)

    def value_of(self, x: Tensor) -> Value:
        """The value that stands for a tensor."""
        if isinstance(x, Symbol):
            return x.value
        return self.now.get(id(x)) or self.capture(x)

    def capture(self, x: Tensor) -> Value:
        """The value of a tensor from outside; small constants of equal content are one."""
        key: Any = id(x)
        if not is_state(x) and x.size <= 16:
            key = (x.dtype, x.shape, x._data.tobytes())
        found = self.captured.get(key)
        if found is None:
            found = self.captured[key] = Value(Spec(x.shape, x.dtype), tensor=x)
            found.name = self.names.get(id(x))
            self.program.captures.append(found)
            self._alive.append(x)
        return found

    def alias(self, x: Tensor) -> Tensor:
        """x under a value of its own, so that the gradients of its uses are kept apart."""
        if x.dtype.kind in "iub" or not x.requires_grad:
            return x
        made: Symbol = apply(Identity(), x)
        return Symbol(made.value, True)

    def where(self) -> str:
        """The user's line, or the one that the gradient under way belongs to."""
        return self._where if self._where is not None else user_line()

    def _no_random(self) -> NoReturn:
        raise TraceError(
            "random numbers are drawn in Python; use pdl.dropout_mask or draw them in the data", user_line()
        )

    # -- gradients -----------------------------------------------------------------------------------------------------
    def gradient(
        self, pairs: Sequence[tuple[Tensor, Tensor]], wanted: Sequence[Tensor | None], start: int = 0
    ) -> list[Tensor | None]:
        """Append the gradients of outputs y, given d for y in pairs (y, d), with respect to `wanted`.

        Walks the nodes from number `start`, newest first, and calls each op's `vjp`, whose ops are recorded.
        """
        grads: dict[Value, Tensor] = {}
        for y, d in pairs:
            _add_into(grads, self.value_of(y), d)
        outer = self._where
        with set_grad_enabled(False), casting(None):
            for node in reversed(self.program.nodes[start:]):
                if node.differentiable and any(v in grads for v in node.outputs):
                    self._where = node.where
                    self._vjp(node, grads)
        self._where = outer
        return [None if x is None else grads.get(self.value_of(x)) for x in wanted]

    def _vjp(self, node: Node, grads: dict[Value, Tensor]) -> None:
        """Move the gradients of a node's outputs to its inputs."""
        ins = tuple(None if v is None else self._operand(v) for v in node.inputs)
        outs = tuple(Symbol(v, True) for v in node.outputs)
        given = tuple(_dense(grads.pop(v, None)) for v in node.outputs)
        several = len(outs) > 1
        entries = node.op.vjp(given if several else given[0], outs if several else outs[0], *ins)
        entries = entries if isinstance(entries, tuple | list) else (entries,)
        if len(entries) != len(ins):
            name = type(node.op).__name__
            raise GradientError(f"{name}.vjp returned {len(entries)} gradients for {len(ins)} inputs")
        for value, x, entry in zip(node.inputs, ins, entries, strict=True):
            if value is None or x is None or entry is None or not x.requires_grad:
                continue
            g = entry() if callable(entry) else entry
            if g is not None:
                _add_into(grads, value, g)

    def _operand(self, value: Value) -> Tensor:
        """A value as a tensor for a vjp; it needs a gradient where one flows through it."""
        if value.tensor is not None:
            return value.tensor
        flows = value.node.differentiable if value.node is not None else value in self.learned
        return Symbol(value, flows and value.spec.dtype.kind not in "iub")


def detached(x: Tensor) -> Tensor:
    """The same values under a name of their own, which no gradient passes."""
    with set_grad_enabled(False):
        return apply(Identity(), x)  # type: ignore[no-any-return]


def _add_into(grads: dict[Value, Tensor], value: Value, g: Tensor) -> None:
    known = grads.get(value)
    grads[value] = g if known is None else known + g


def _dense(g: Tensor | None) -> Tensor | None:
    """A gradient that an op's vjp can take."""
    return g.to_dense() if isinstance(g, SparseGrad) else g


def is_tracing() -> bool:
    """Whether the calling code is being traced into a program."""
    return _Tracing.recorder is not None


def module_names(*modules: Any) -> dict[int, str]:
    """Paths of the parameters, buffers and submodules of modules, by id."""
    found: dict[int, str] = {}
    for module in modules:
        for named in (module.named_parameters, module.named_buffers, module.named_modules):
            found.update({id(x): path or type(module).__name__ for path, x in named()})
    return found


def symbols(recorder: Recorder, tree: Any, name: str = "x") -> Any:
    """The tree with an input of the program for every array, and `Opaque` for what a program cannot take."""
    count = len(list(leaves(tree)))
    number = iter(range(count))

    def leaf(x: Any) -> Symbol:
        label = name if count == 1 else f"{name}{next(number)}"
        return recorder.input(Spec(tuple(x.shape), x.dtype), label, bool(getattr(x, "requires_grad", False)))

    return rebuild(tree, leaf, lambda x: x if is_plain(x) else Opaque(type(x).__name__))


@begins_trace
def trace(function: Callable[..., Any], *args: Any, name: str | None = None, modules: Iterable[Any] = ()) -> Program:
    """The program of ``function(*args)``: its inputs are the arrays in `args` (tensors, arrays, or `Spec`), its outputs
    the tensors that it returns, in order.

    Python code around the ops runs once, now. Where it needs values (``if x.sum() > 0``, ``float(x)``) it raises
    `TraceError`, which names the line; `pdl.jit.to_static` rewrites such code first. `modules` lend names.
    """
    owner = [m for m in (function, getattr(function, "__self__", None)) if hasattr(m, "named_parameters")]
    label = name or getattr(function, "__name__", None) or type(function).__name__
    recorder = Recorder(label, module_names(*owner, *modules))
    with recorder.active():
        inputs = [
            recorder.input(a, f"x{i}") if isinstance(a, Spec) else symbols(recorder, a, f"x{i}")
            for i, a in enumerate(args)
        ]
        result = function(*inputs)
        recorder.program.outputs = [recorder.value_of(as_output(x)) for x in leaves(result)]
    return recorder.program


def as_output(x: TensorLike) -> Tensor:
    """A returned tensor or array."""
    return x if isinstance(x, Tensor) else Tensor(x)
