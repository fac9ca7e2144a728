"""What a call in rewritten code becomes: user functions are rewritten too, some builtins know tensors."""

from __future__ import annotations

import builtins
import functools
from collections.abc import Callable
from types import BuiltinMethodType, FunctionType, MethodType
from typing import Any

from pdl import ops
from pdl.dtype import bool_, float32, int64
from pdl.errors import TraceError
from pdl.jit import lazy
from pdl.jit.convert import converted, is_converted, may_convert
from pdl.jit.errors import ConversionError
from pdl.jit.symbolic import is_symbolic, scalar, truth
from pdl.nn.module import Module
from pdl.ops.base import apply
from pdl.program.control import Print
from pdl.tensor import Tensor, _Tracing


def call(function: Any) -> Any:
    """What to call in place of `function`."""
    known = _BUILTINS.get(function) if isinstance(function, type | BuiltinMethodType | FunctionType) else None
    if known is not None:
        return known
    if isinstance(function, FunctionType):
        return _function(function)
    if isinstance(function, MethodType):
        return _method(function)
    if isinstance(function, Module):
        return functools.partial(_module, function) if _Tracing.recorder is not None else function
    if isinstance(function, functools.partial):
        return functools.partial(call(function.func), *function.args, **function.keywords)
    own = None if isinstance(function, type) else type(function).__dict__.get("__call__")
    if isinstance(own, FunctionType) and may_convert(own):
        return MethodType(_function(own), function)
    return function


def _function(function: FunctionType) -> Any:
    if is_converted(function) or not may_convert(function):
        return function
    try:
        return converted(function)
    except ConversionError as error:
        if _Tracing.recorder is None:
            return function
        return _Refused(function, error)


class _Refused:
    """A function that cannot be rewritten: called as it is; if that stops the trace, the reason is reported."""

    def __init__(self, function: Callable[..., Any], error: ConversionError) -> None:
        self.function, self.error = function, error

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if "outside the function" in self.error.reason:
            raise self.error
        try:
            return self.function(*args, **kwargs)
        except TraceError as stopped:
            if isinstance(stopped, ConversionError):
                raise
            raise TraceError(f"{stopped.reason} (not converted: {self.error})", stopped.where) from None


def _method(method: MethodType) -> Any:
    owner, function = method.__self__, method.__func__
    if isinstance(owner, Tensor):
        return functools.partial(_item, owner) if function is Tensor.item and is_symbolic(owner) else method
    if isinstance(owner, Module) and function is Module.__call__:
        return call(owner)
    if not isinstance(function, FunctionType):
        return method
    new = _function(function)
    return method if new is function else functools.partial(new, owner)


def _module(module: Module, *args: Any, **kwargs: Any) -> Any:
    """``module(...)`` with its `forward` rewritten, inside the module's scope and hooks."""
    if type(module).__call__ is not Module.__call__:
        return type(module).__call__(module, *args, **kwargs)
    with _Tracing.recorder.scope(module):
        forward = module.forward
        return module._call_hooked(args, kwargs, forward if not isinstance(forward, MethodType) else _method(forward))


# -- builtins on tensors -----------------------------------------------------------------------------------------------
def _item(x: Tensor) -> Tensor:
    return ops.reshape(x, ()).detach()


def _cast(python: type, dtype: Any) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        if len(args) == 1 and is_symbolic(args[0]):
            x = args[0]
            if dtype == bool_:
                return truth(x)
            return ops.astype(scalar(x).detach(), dtype if x.dtype.kind not in "f" or dtype == int64 else x.dtype)
        return python(*args, **kwargs)

    return function


def _print(*values: Any, sep: str | None = " ", end: str | None = "\n", file: Any = None, flush: bool = False) -> None:
    """`print`: of symbolic tensors when the program runs."""
    if file is not None or not any(is_symbolic(v) for v in values):
        if _Tracing.recorder is not None and file is None:
            apply(Print(((" " if sep is None else sep).join(map(str, values)),), "\n" if end is None else end))
            return
        builtins.print(*values, sep=sep, end=end, file=file, flush=flush)
        return
    between = " " if sep is None else sep
    texts, tensors = [""], []
    for i, value in enumerate(values):
        texts[-1] += between if i else ""
        if is_symbolic(value):
            tensors.append(value)
            texts.append("")
        else:
            texts[-1] += str(value)
    apply(Print(tuple(texts), "\n" if end is None else end), *tensors)


def _extreme(python: Callable[..., Any], pairwise: Callable[[Any, Any], Tensor]) -> Callable[..., Any]:
    def function(*args: Any, **kwargs: Any) -> Any:
        items = list(args[0]) if len(args) == 1 and isinstance(args[0], list | tuple | Tensor) else list(args)
        if kwargs or not any(is_symbolic(x) for x in items):
            return python(*args, **kwargs)
        return functools.reduce(pairwise, items)

    return function


def _every(python: Callable[..., Any], pairwise: Callable[[Any, Any], Tensor]) -> Callable[..., Any]:
    def function(items: Any) -> Any:
        values = list(items)
        if not any(is_symbolic(x) for x in values):
            return python(values)
        return functools.reduce(pairwise, [truth(x) if isinstance(x, Tensor) else bool(x) for x in values])

    return function


_BUILTINS: dict[Any, Any] = {
    print: _print,
    range: lazy.range_of,
    enumerate: lazy.enumerate_of,
    zip: lazy.zip_of,
    int: _cast(int, int64),
    float: _cast(float, float32),
    bool: _cast(bool, bool_),
    min: _extreme(min, ops.minimum),
    max: _extreme(max, ops.maximum),
    all: _every(all, ops.logical_and),
    any: _every(any, ops.logical_or),
}
