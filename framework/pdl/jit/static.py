"""`to_static` and `compile`: Python functions and modules that run as programs."""

from __future__ import annotations

import functools
import os.path
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable
from types import FunctionType, MethodType, TracebackType
from typing import Any, cast

from pdl.autograd.anomaly import begins_trace
from pdl.dtype import is_differentiable
from pdl.errors import TraceError, UsageError
from pdl.jit.calls import call
from pdl.jit.convert import converted
from pdl.jit.errors import ConversionError
from pdl.jit.flow import explained
from pdl.nn.module import Buffer, Module, Parameter
from pdl.ops.base import Spec, apply
from pdl.program.block import Block, BranchRecorder
from pdl.program.control import Call
from pdl.program.ir import Program
from pdl.program.tracing import Symbol, as_output, module_names
from pdl.program.tree import is_array, is_plain, leaves, rebuild
from pdl.tensor import Tensor, _Autocast, _GradMode, _Tracing, as_tensor, set_grad_enabled

_HERE = os.path.dirname(os.path.abspath(__file__))


class StaticFunction:
    """A function that is traced once for every kind of arguments and then runs as a program, gradients included.

    The kind: shape and dtype of arrays, the values of everything else, and the training flags of the modules called.
    Other Python state that the code reads (attributes, globals) is taken as it was when the program was made.

    capacity   programs kept, the latest used
    fallback   where code cannot be traced: None raises; a function gets one line that says which line of Python is the
               reason, and the call runs in eager mode
    """

    def __init__(
        self,
        function: Callable[..., Any],
        body: Callable[..., Any],
        *,
        capacity: int = 16,
        fallback: Callable[[str], None] | None = None,
    ) -> None:
        if capacity < 1:
            raise UsageError(f"capacity is {capacity}; at least one program is kept")
        self.function, self.body, self.capacity, self.fallback = function, body, capacity, fallback
        self.programs: OrderedDict[Any, list[_Traced]] = OrderedDict()
        self.stopped: dict[Any, TraceError] = {}  # kinds of arguments that cannot be traced
        self._reported: set[str] = set()
        self._lock = threading.Lock()  # of `programs`
        functools.update_wrapper(self, function, updated=())

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The result, from the program for such arguments."""
        if _Tracing.recorder is not None:
            with explained():
                return self.body(*args, **kwargs)
        key = (_kind((args, kwargs)), _Autocast.active is None)
        if key in self.stopped:
            return self.function(*args, **kwargs)
        found = self._find(key)
        if found is None:
            try:
                found = self._make(key, args, kwargs)
            except TraceError as error:
                if self.fallback is None:
                    raise error.with_traceback(_users(error.__traceback__)) from None
                self._stop(key, error)
                return self.function(*args, **kwargs)
            except Exception as error:
                raise error.with_traceback(_users(error.__traceback__)) from error.__cause__
        return found(args, kwargs)

    def program(self, *args: Any, **kwargs: Any) -> Program:
        """The program for such arguments."""
        key = (_kind((args, kwargs)), _Autocast.active is None)
        return (self._find(key) or self._make(key, args, kwargs)).block.program

    def _find(self, key: Any) -> _Traced | None:
        for traced in self.programs.get(key, ()):
            if traced.holds():
                with self._lock:
                    if key in self.programs:  # else another thread has just let it go
                        self.programs.move_to_end(key)
                return traced
        return None

    def _make(self, key: Any, args: Any, kwargs: Any) -> _Traced:
        made = _Traced(self.body, args, kwargs, getattr(self.function, "__name__", type(self.function).__name__))
        with self._lock:
            kept = [t for t in self.programs.get(key, ()) if t.may_hold_again()]
            self.programs[key] = [*kept[-3:], made]
            self.programs.move_to_end(key)
            while len(self.programs) > self.capacity:
                self.programs.popitem(last=False)
        return made

    def _stop(self, key: Any, error: TraceError) -> None:
        if len(self.stopped) > 4 * self.capacity:
            self.stopped.clear()
        self.stopped[key] = error
        if self.fallback is not None and error.where not in self._reported:
            self._reported.add(error.where)
            self.fallback(f"running in eager mode, {error.where} cannot be compiled: {error.reason}")


class _Traced:
    """One program of a function: how it was made, and what must still hold for it to be used."""

    @begins_trace
    def __init__(self, body: Callable[..., Any], args: Any, kwargs: Any, name: str) -> None:
        recorder = BranchRecorder(name)
        owners = [x for x in (*args, *kwargs.values(), getattr(body, "__self__", None)) if isinstance(x, Module)]
        recorder.names = module_names(*owners)
        with recorder.active(), explained(), set_grad_enabled(True):
            place = iter(range(1 << 30))
            inputs, named = rebuild(
                (args, kwargs), lambda x: recorder.input(Spec(tuple(x.shape), x.dtype), f"x{next(place)}")
            )
            self.result = body(*inputs, **named)
            outs = [as_output(x) for x in leaves(self.result)]
            self.buffers = list(recorder.assigned.values())
            recorder.program.outputs = [recorder.value_of(x) for x in (*outs, *self.buffers)]
        given = recorder.program.inputs
        first = len(given) - len(recorder.sources)
        sources = sorted(  # buffers that change first: a call copies these, as it copies arguments
            zip(recorder.sources, given[first:], strict=True), key=lambda pair: id(pair[0]) not in recorder.assigned
        )
        recorder.program.inputs = [*given[:first], *[value for _, value in sources]]
        self.block = Block(recorder.program)
        self.sources = [x for x, _ in sources]
        self.replaced = [first + i for i, x in enumerate(self.sources) if id(x) in recorder.assigned]
        self.copied = first + len(self.replaced)
        self.flows = [isinstance(x, Symbol) and x.requires_grad for x in outs]
        self._calls: dict[tuple[bool, ...], Call] = {}
        self._modules = [*recorder.modules.values(), *((m, m.training) for m in owners)]
        self._homes = _homes(self.sources, [m for m, _ in self._modules])

    def holds(self) -> bool:
        """Whether the modules are in the mode, and have the tensors, that the program was made for."""
        return all(m.training is flag for m, flag in self._modules) and self.may_hold_again()

    def may_hold_again(self) -> bool:
        """Whether all parameters and buffers are still where they were."""
        return all(home.get(name) is x for home, name, x in self._homes)

    def __call__(self, args: Any, kwargs: Any) -> Any:
        ins = [*(as_tensor(x) for x in leaves((args, kwargs))), *self.sources]
        learning = _GradMode.enabled
        wanted = tuple([learning and x._requires_grad and is_differentiable(x.dtype) for x in ins])
        op = self._calls.get(wanted)
        if op is None:
            op = self._calls[wanted] = Call(self.block, wanted, self.copied)
        if any(wanted):  # a gradient is one at the values that buffers have now
            for i in self.replaced:
                ins[i] = ins[i] if ins[i]._requires_grad else Tensor._wrap(ins[i]._data.copy())
        made = apply(op, *ins) if self.block.specs else ()
        outs = made if isinstance(made, tuple) else (made,)
        for buffer, value in zip(self.buffers, outs[len(self.flows) :], strict=False):
            buffer._data[...] = value._data
        values = iter([y if f else y.detach() for y, f in zip(outs, self.flows, strict=False)])
        return rebuild(self.result, lambda _: next(values))


def _homes(sources: list[Tensor], modules: list[Module]) -> list[tuple[dict[str, Any], str, Tensor]]:
    """Where the parameters and buffers that a program reads are set as attributes."""
    wanted = {id(x) for x in sources}
    return [
        (m.__dict__, name, x)
        for m in {id(m): m for m in modules}.values()
        for name, x in m.__dict__.items()
        if isinstance(x, Parameter | Buffer) and id(x) in wanted
    ]


def _kind(tree: Any) -> Any:
    """What a program depends on: specs of arrays, and everything else by value, or by identity where it has no hash."""
    if is_array(tree):
        return (tree.shape, tree.dtype)
    if isinstance(tree, dict):
        return (dict, *((k, _kind(v)) for k, v in tree.items()))
    if isinstance(tree, list | tuple):
        return (type(tree), *map(_kind, tree))
    if is_plain(tree) or isinstance(tree, str):
        return (type(tree), tree)
    return _Identity(tree)


class _Identity:
    """An object as a key: equal to itself only, and kept alive."""

    __slots__ = ("it",)

    def __init__(self, it: Any) -> None:
        self.it = it

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and self.it is other.it

    def __hash__(self) -> int:
        return id(self.it)


def _users(tb: TracebackType | None) -> TracebackType | None:
    """A traceback without the frames of this package."""
    if tb is None:
        return None
    rest = _users(tb.tb_next)
    if tb.tb_frame.f_code.co_filename.startswith(_HERE):
        return rest
    return TracebackType(rest, tb.tb_frame, tb.tb_lasti, tb.tb_lineno)


def to_static(function: Any = None, *, capacity: int = 16) -> Any:
    """Decorator for functions, methods and modules: Python's control flow on tensors becomes part of a program.

        @pdl.jit.to_static
        def f(x):
            while x.sum() < 10:
                x = x * 2
            return x if x.min() > 0 else -x

    `if`, `for`, `while`, `break`, `continue`, early `return`, `and`, `or`, `not`, chained comparisons, conditional
    expressions, `assert`, `print`, and calls of user functions work on tensors as on Python values; what a program
    cannot hold raises `TraceError` with file, line and reason. The `forward` of a module is replaced, and
    the module returned.
    """
    if function is None:
        return functools.partial(to_static, capacity=capacity)
    if isinstance(function, StaticFunction):
        return function
    if isinstance(function, Module):
        forward = function.forward
        if not isinstance(forward, StaticFunction):
            object.__setattr__(function, "forward", StaticFunction(forward, _body(forward), capacity=capacity))
        return function
    return StaticFunction(function, _body(function), capacity=capacity)


def _body(function: Any) -> Callable[..., Any]:
    """The rewritten function."""
    try:
        return _rewritten(function)
    except ConversionError as error:
        raise error.with_traceback(None) from None


def _rewritten(function: Any) -> Callable[..., Any]:
    if isinstance(function, MethodType):
        if isinstance(function.__func__, StaticFunction):
            return MethodType(function.__func__.body, function.__self__)
        return MethodType(converted(cast(FunctionType, function.__func__)), function.__self__)
    if isinstance(function, FunctionType):
        return converted(function)
    if isinstance(function, functools.partial):
        return functools.partial(_rewritten(function.func), *function.args, **function.keywords)
    raise UsageError(f"to_static takes a function, a method or a module, not {type(function).__name__}")


def compile(function: Any, *, capacity: int = 16, on_fallback: Callable[[str], None] | None = None) -> StaticFunction:
    """A callable with the results and gradients of `function` (or of a module), run as a program per kind of arguments.

    Code is traced as it is, control flow on tensors is not rewritten (`to_static` does that, and both combine). Where
    the trace stops, such calls run in eager mode, and `on_fallback` (by default a `RuntimeWarning`) gets one line that
    names the line of Python and the reason. `capacity` programs are kept.
    """
    body = function
    if isinstance(function, Module):
        body = function.__call__
    elif not callable(function):
        raise UsageError(f"compile takes a function or a module, not {type(function).__name__}")
    return StaticFunction(function, body, capacity=capacity, fallback=on_fallback or _warn)


def _warn(line: str) -> None:
    warnings.warn(line, RuntimeWarning, stacklevel=4)


def not_to_static(function: FunctionType) -> FunctionType:
    """Decorator: leave this function as it is when a caller is rewritten."""
    function._pdl_left = True  # type: ignore[attr-defined]
    return function


__all__ = ["StaticFunction", "call", "compile", "not_to_static", "to_static"]
