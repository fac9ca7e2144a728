"""`Op`: everything pdl knows of one operation, and `apply`, the one place where ops are run and recorded."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import Context, copy_context
from functools import partial
from threading import local
from typing import Any, ClassVar, NamedTuple, TypeAlias, dataclass_transform

import numpy as np

from pdl import threads
from pdl.autograd import anomaly, tape
from pdl.dtype import Array, DType, bfloat16, float32, is_differentiable
from pdl.errors import PackageError, PdlError, UsageError
from pdl.kernels.copies import contiguous, copy
from pdl.kernels.memory import empty
from pdl.kernels.pointwise import cast
from pdl.kernels.runtime import flushed
from pdl.limits import SMALL, check_output
from pdl.ops.attributes import from_json, frozen, kinds, to_json
from pdl.ops.guard import brief, guarded
from pdl.ops.listeners import listeners
from pdl.tensor import Tensor, _Autocast, _GradMode, _Tracing

#: the classes of all ops that are imported, by their names in files (`Op.op_name`)
OPS: dict[str, type[Op]] = {}
Arrays: TypeAlias = "tuple[Array, ...]"
#: what `Op.autocast` may say: a rule of `pdl.ops.precision`, or nothing
AUTOCAST = ("", "narrow", "narrow_first", "wide", "together", "widest", "like_first")


class Spec(NamedTuple):
    """Shape and dtype of a value, without the value."""

    shape: tuple[int, ...]
    dtype: DType


class not_differentiable:
    """Stands where `vjp` would: ``vjp = not_differentiable("argmax is piecewise constant")``."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


class not_exported:
    """Stands where `onnx` would: ``onnx = not_exported("ONNX has no quantum circuits")``."""

    def __init__(self, reason: str) -> None:
        self.reason = reason


@dataclass_transform(frozen_default=True)
class Op:
    """One operation. Subclasses annotate their attributes and define `infer`, `cpu` (or `run`) and `vjp`.

    A class that lacks a part, or a docstring, fails at import. Subclasses become frozen value classes (equality, hash,
    `to_dict`) without `@dataclass`, whose generated code would cost half of pdl's import time.

    An op may live outside of pdl. Its name in files then begins with its package (`acme.Scale`), its distribution
    declares it under the entry point group `pdl.ops` (``"acme.Scale" = "acme.ops:Scale"``), by which a bundle finds it,
    and it says itself what tables of pdl say of pdl's own ops: `autocast`, `multiply_adds`, `onnx`.
    """

    op_name: ClassVar[str] = ""  # in files and tables: the name of the class, behind that of a package other than pdl
    fields: ClassVar[tuple[str, ...]] = ()
    defaults: ClassVar[dict[str, Any]] = {}
    differentiable: ClassVar[bool] = True
    stateful: ClassVar[bool] = False  # two runs on the same inputs may differ: it draws random numbers
    recorded: ClassVar[bool] = False  # neither traces nor folding compute it beforehand, though its inputs be constants
    of_shapes: ClassVar[bool] = False  # its values are decided by the shapes of its inputs, which folding needs alone
    effect: ClassVar[bool] = False  # it does something beside its outputs (a print): kept though nobody reads them
    inplace: ClassVar[bool] = False  # `cpu` may write its output over an input of the same shape and dtype
    #: output -> the input of the same shape and dtype that `cpu` may write it over, of an op with several outputs
    overwrites: ClassVar[dict[int, int]] = {}
    dynamic: ClassVar[bool] = False  # the shape of the output depends on values; such an op defines `run`
    native_bf16: ClassVar[bool] = False  # `cpu` itself takes bfloat16; otherwise it is computed in float32 and rounded
    #: `cpu` is kernel calls on its outs, its ins, and memory from `kernels.memory.empty` that such calls fill, nothing
    #: else: written on a tape once, it can be replayed. Where it does more for some dtypes or layouts, it calls
    #: `kernels.launch.now` first
    native: ClassVar[bool] = False
    view: ClassVar[Callable[..., Array] | None] = None  # eager mode may answer with a view of the first input
    autocast: ClassVar[str] = ""  # the rule of `pdl.ops.precision` for its inputs; "": they are left as they are
    #: ``onnx(g, *inputs)`` writes it as ONNX nodes, see `pdl.export.onnx.registry`; a `Fused` op can do without
    onnx: ClassVar[Any] = None
    _checked: ClassVar[bool] = False  # set in each op that `require` has checked

    def __init_subclass__(cls, abstract: bool = False) -> None:
        if "infer" in cls.__dict__:
            cls.infer = guarded(cls.__dict__["infer"])  # type: ignore[method-assign]
        package = cls.__module__.partition(".")[0]
        cls.op_name = cls.__name__ if package == "pdl" else f"{package}.{cls.__name__}"
        own = [n for n, a in cls.__dict__.get("__annotations__", {}).items() if not str(a).startswith("ClassVar")]  # noqa: RUF063
        ops = [base for base in cls.__bases__ if issubclass(base, Op)]
        cls.fields = tuple(dict.fromkeys([n for base in ops for n in base.fields] + own))
        inherited = {n: v for base in reversed(ops) for n, v in base.defaults.items()}
        cls.defaults = inherited | {n: cls.__dict__[n] for n in own if n in cls.__dict__}
        if abstract:
            return
        _check_parts(cls)
        cls.native = cls.native or (cls.view is not None and cls.cpu is Op.cpu)
        cls.differentiable = not isinstance(cls.vjp, not_differentiable)
        OPS[cls.op_name] = cls

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        values = args if len(args) == len(self.fields) and not kwargs else self._arrange(args, kwargs)
        try:
            own_hash = hash((type(self), *values))
        except TypeError:
            values = tuple(frozen(v) for v in values)
            own_hash = hash((type(self), *values))
        state = self.__dict__
        state.update(zip(self.fields, values, strict=True))
        state["_hash"] = own_hash

    @classmethod
    def _arrange(cls, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """The attributes in the order of the fields, defaults filled in."""
        values = {**cls.defaults, **dict(zip(cls.fields, args, strict=False)), **kwargs}
        if (
            len(args) > len(cls.fields)
            or values.keys() - set(cls.fields)
            or kwargs.keys() & set(cls.fields[: len(args)])
        ):
            raise TypeError(f"{cls.__name__} has the attributes {cls.fields}, got {args} and {kwargs}")
        for name in cls.fields:
            if name not in values:
                raise TypeError(f"{cls.__name__} needs the attribute {name!r}")
        return tuple(values[name] for name in cls.fields)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"{type(self).__name__} is frozen; make a new one to change {name}")

    def __hash__(self) -> int:
        return self._hash  # type: ignore[attr-defined, no-any-return]

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if type(self) is not type(other) or hash(self) != hash(other):
            return False
        mine, theirs = self.__dict__, other.__dict__
        return all(mine[n] is theirs[n] or mine[n] == theirs[n] for n in self.fields)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{n}={getattr(self, n)!r}' for n in self.fields)})"

    # -- the parts ---------------------------------------------------------------------------------------------------
    def require(self) -> None:
        """`check`, once for each op: its attributes never change."""
        if not self._checked:
            self.check()
            self.__dict__["_checked"] = True

    def check(self) -> None:
        """Raise UsageError unless every attribute is what its annotation says. `infer` and `from_dict` call it, through
        `require`; a class adds what its attributes must be beside each other."""
        state = self.__dict__
        for name, kind in kinds(type(self)).items():  # type: ignore[arg-type]
            if not kind.holds(state[name]):
                raise UsageError(f"{self.op_name}: {name} is {brief(state[name])}; expected {kind.text}")

    def infer(self, *ins: Any, **_: Any) -> Spec | tuple[Spec, ...]:
        """Shapes and dtypes of the outputs; raises with both numbers where the inputs do not fit."""
        raise AttributeError(f"{type(self).__name__} has no static shape")

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        """Compute into `outs`; allocates nothing but scratch."""
        if self.view is not None:
            copy(outs[0], self.view(*ins))
            return
        raise AttributeError(f"{type(self).__name__} has no CPU body")

    vjp: ClassVar[Any]

    # -- running -----------------------------------------------------------------------------------------------------
    def run(self, ins: tuple[Any, ...]) -> Arrays:
        """Outputs for arrays: a view where the op is one, else `infer`, allocate, `cpu`."""
        specs, upcast, _ = self._plan(ins)
        if self.view is not None:
            return (self.view(*ins),)
        if upcast:
            return self._run_upcast(specs, ins)
        outs = tuple([empty(shape, dtype) for shape, dtype in specs])
        self.cpu(outs, ins)
        return outs

    def _run_upcast(self, specs: tuple[Spec, ...], ins: tuple[Any, ...]) -> Arrays:
        """bfloat16 through a float32 body: one rounding, to nearest even, at the end."""
        wide = tuple(cast_array(x, float32) if x is not None and x.dtype == bfloat16 else x for x in ins)
        outs = tuple(empty(s.shape, float32 if s.dtype == bfloat16 else s.dtype) for s in specs)
        self.cpu(outs, wide)
        return tuple(cast_array(y, bfloat16) if s.dtype == bfloat16 else y for y, s in zip(outs, specs, strict=True))

    def specs(self, ins: tuple[Any, ...]) -> tuple[Spec, ...]:
        """`infer` for arrays, remembered per op and input shapes."""
        return self._plan(ins).specs

    def _plan(self, ins: tuple[Any, ...]) -> _Plan:
        """What is known of the outputs before the op runs."""
        key = (self, *[None if x is None else (x.shape, x.dtype) for x in ins])
        found = _plans.get(key)
        if found is None:
            if not _plans:
                threads.check_environment()
            made = self.infer(*[None if x is None else Spec(x.shape, x.dtype) for x in ins])  # type: ignore[arg-type]
            specs = (made,) if isinstance(made, Spec) else tuple(made)
            upcast = not self.native_bf16 and any(x is not None and x.dtype == bfloat16 for x in ins)
            largest = max((math.prod(map(int, s.shape)) * s.dtype.itemsize for s in specs), default=0)
            found = _Plan(specs, upcast, largest)
            if len(_plans) > 20_000:
                _plans.clear()
            _plans[key] = found
        if found.largest > SMALL:
            check_output(type(self).__name__, found.specs, found.largest)
        return found

    def silent(self) -> Op:
        """The same op without effects inside, for running it again."""
        return self

    def multiply_adds(self, ins: Sequence[Any], outs: Sequence[Any]) -> int:
        """Multiply-adds of one call, from what has `shape` and `dtype`; for pdl's own ops see `pdl.ops.cost`."""
        return 0

    # -- the serialised form -----------------------------------------------------------------------------------------
    def to_dict(self) -> dict[str, Any]:
        """``{"op": its name, attribute: value, ...}``, fit for JSON."""
        return {"op": self.op_name, **{n: to_json(getattr(self, n)) for n in self.fields}}

    @staticmethod
    def from_dict(data: dict[str, Any]) -> Op:
        """The op that `to_dict` wrote. UsageError for a name that no op has, and for attributes that it has not."""
        values = dict(data)
        name = values.pop("op", None)
        found = find_op(name) if isinstance(name, str) else None
        if found is None:
            raise UsageError(f"unknown op {name!r}; there are {len(OPS)}, see pdl.ops.base.OPS")
        try:
            op = found(**{n: from_json(v) for n, v in values.items()})
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            if isinstance(error, PdlError):
                raise
            raise UsageError(f"{name}: its attributes cannot be read ({type(error).__name__}: {error})") from error
        op.require()
        return op


def find_op(name: str) -> type[Op] | None:
    """The op of this name, imported from the installed distribution that provides it if need be; None where there is
    none. PackageError where the distribution is broken."""
    found = OPS.get(name)
    if found is not None or "." not in name:
        return found
    from pdl import packages  # only for ops of others

    provided = packages.provided(packages.OPS, name)
    if provided is None:
        return None
    made = provided.load()
    if OPS.get(name) is not made:
        raise PackageError(f"{provided} cannot be used: {provided.value} is no op of that name")
    return made


class Fused(Op, abstract=True):
    """An op that is also written in other ops (`compose`); `vjp` is the gradient of that, or a faster one."""

    def __init_subclass__(cls, abstract: bool = False) -> None:
        super().__init_subclass__(abstract=abstract)
        if not abstract and "compose" not in cls.__dict__ and getattr(cls, "compose", None) is Fused.compose:
            raise TypeError(f"{cls.__name__} is Fused but has no compose()")

    def compose(self, *ins: Any) -> Tensor | tuple[Tensor, ...]:
        """The same value, in primitive ops."""
        raise AttributeError(f"{type(self).__name__} has no compose()")

    def vjp(self, g: Any, y: Any, *ins: Any) -> Any:
        """The gradient of `compose`, recorded when the caller records."""
        return compose_vjp(self.compose, g, ins)


def compose_vjp(function: Callable[..., Any], g: Any, ins: tuple[Tensor | None, ...]) -> tuple[Tensor | None, ...]:
    """Vector-Jacobian product of a function written in ops, differentiable again where gradients are being recorded.

    Each input enters as a tensor of its own, so that what one input owes to another is not counted here.
    """
    if _Tracing.recorder is not None:
        return _Tracing.recorder.compose_vjp(function, g, ins)  # type: ignore[no-any-return]
    record = _GradMode.enabled
    _GradMode.enabled = True
    try:
        xs = tuple(None if x is None else _alias(x) if record else _leaf(x) for x in ins)
        ys = function(*xs)
        ys, gs = (ys, g) if isinstance(ys, tuple) else ((ys,), (g,))
        pairs = [(y, d) for y, d in zip(ys, gs, strict=True) if d is not None and y.requires_grad]
        wanted = [x for x in xs if x is not None and x.requires_grad]
        if not pairs or not wanted:
            return (None,) * len(ins)
        found = tape.grad(
            [p[0] for p in pairs],
            wanted,
            [p[1] for p in pairs],
            create_graph=record,
            allow_unused=True,
            retain_graph=record,
        )
    finally:
        _GradMode.enabled = record
    by_id = {id(x): d for x, d in zip(wanted, found, strict=True)}
    return tuple(None if x is None else by_id.get(id(x)) for x in xs)


def _alias(x: Tensor) -> Tensor:
    return apply(Identity(), x) if x.requires_grad else x  # type: ignore[no-any-return]


def _leaf(x: Tensor) -> Tensor:
    leaf = Tensor._wrap(x.data)
    leaf._requires_grad = x.requires_grad
    return leaf


def cast_array(x: Array, dtype: DType) -> Array:
    """A float32 array in bfloat16, or a bfloat16 one in float32."""
    y = empty(x.shape, dtype)
    cast(y, contiguous(x))
    return y


class _Plan(NamedTuple):
    """What an op makes of inputs of some shapes: specs of the outputs, whether the body runs in float32 for bfloat16
    inputs, and the bytes of the largest output."""

    specs: tuple[Spec, ...]
    upcast: bool
    largest: int


_plans: dict[Any, _Plan] = {}


class _Quiet(local):
    """Runs op bodies without NumPy's floating-point warnings: a NaN is a value here, and `detect_anomaly` finds it.
    Denormal numbers count as 0, in NumPy's loops as in kernels: they slow some CPUs down a hundred times.

    One context a thread, entered in a tenth of the time that `np.errstate` takes.
    """

    def __init__(self) -> None:
        self.run = _in_quiet_context()

    @contextmanager
    def anew(self) -> Iterator[None]:
        """Ops inside run in another context: a body that calls ops is itself in the thread's, which is not entered
        twice."""
        outer, self.run = self.run, _in_quiet_context()
        try:
            yield
        finally:
            self.run = outer


def _in_quiet_context() -> partial[Any]:
    context: Context = copy_context()
    context.run(np.seterr, all="ignore")
    return partial(flushed, context.run)


_quiet = _Quiet()


def apply(op: Op, *inputs: Tensor | None) -> Any:
    """Run `op` on tensors and record it where a gradient flows; one tensor, or a tuple for several outputs.

    While a function is traced into a program, the op is written down instead of being run.
    """
    if _Autocast.active is not None:
        inputs = _Autocast.active.inputs(op, inputs)
    if _Tracing.recorder is not None:
        traced = _Tracing.recorder.record(op, inputs)
        if traced is not None:
            return traced
    ins = tuple([None if x is None else x._data for x in inputs])
    outs = _timed(op, ins) if listeners.timers else _quiet.run(op.run, ins)
    if anomaly.Anomaly.enabled:
        anomaly.check(op, ins, outs)
    for observe in listeners.observers:
        observe(op, ins, outs)
    node = None
    if _GradMode.enabled and op.differentiable:
        for x in inputs:
            if x is not None and x._requires_grad:
                where = anomaly.user_line() if anomaly.Anomaly.enabled else None
                node = tape.Node(op, inputs, outs, where)
                break
    if len(outs) == 1:
        return Tensor._wrap(outs[0], node if is_differentiable(outs[0].dtype) else None)
    return tuple([Tensor._wrap(y, node if is_differentiable(y.dtype) else None, i) for i, y in enumerate(outs)])


def _timed(op: Op, ins: tuple[Any, ...]) -> Arrays:
    begin = time.perf_counter()
    outs: Arrays = _quiet.run(op.run, ins)
    end = time.perf_counter()
    for timer in listeners.timers:
        timer(op, ins, outs, begin, end)
    return outs


def assign(target: Tensor, value: Tensor) -> None:
    """Copy `value` into a buffer of the same shape, such as a running mean; in a program this happens at its end."""
    if _Tracing.recorder is not None:
        return _Tracing.recorder.assign(target, value)  # type: ignore[no-any-return]
    target._data[...] = value._data


def _check_parts(cls: type[Op]) -> None:
    lacks = []
    if not cls.__doc__ or cls.__doc__ == Op.__doc__:
        lacks.append("a docstring")
    if cls.infer is Op.infer and not cls.dynamic:
        lacks.append("infer")
    if cls.cpu is Op.cpu and cls.run is Op.run and cls.view is None:
        lacks.append("cpu")
    if not hasattr(cls, "vjp"):
        lacks.append("vjp (or vjp = not_differentiable('reason'))")
    if any(not isinstance(a, str) for a in cls.__dict__.get("__annotations__", {}).values()):  # noqa: RUF063
        lacks.append("`from __future__ import annotations` in its module: files are checked against their text")
    if lacks:
        raise TypeError(f"op {cls.__name__} lacks {', '.join(lacks)}")
    if cls.autocast not in AUTOCAST:
        raise TypeError(f"op {cls.__name__}: autocast is {cls.autocast!r}, not one of {', '.join(AUTOCAST[1:])}")
    if cls.op_name in OPS:
        raise TypeError(f"two ops are named {cls.op_name}: {OPS[cls.op_name].__module__} and {cls.__module__}")


class Identity(Op):
    """The same values as a new place in the graph (a view)."""

    def infer(self, x: Spec) -> Spec:
        return x

    def view(self, x: Array) -> Array:
        return x.view()

    def vjp(self, g: Tensor, y: Tensor, x: Tensor) -> Tensor:
        return g


__all__ = ["OPS", "Fused", "Op", "Spec", "apply", "find_op", "not_differentiable", "not_exported"]
