"""`Op.infer` behind checks: of the attributes, of the inputs that there must be, and of the sizes that it makes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from itertools import chain, repeat
from typing import Any

from pdl.errors import ShapeError, UsageError

MAX_RANK = 32  # dimensions of an array, as NumPy 1 has it
MAX_BYTES = 2**62  # so that no product of sizes and no sum of two such products leaves an int64
_VARIADIC = 4  # the flag of a function's code that says *args


def guarded(infer: Callable[..., Any]) -> Callable[..., Any]:
    """`infer` as every op has it: it raises UsageError where an attribute is out of its range or an input is missing,
    and ShapeError where an output could not be an array."""

    @wraps(infer)
    def checked(self: Any, *ins: Any, **named: Any) -> Any:
        self.require()
        if not named:
            _check_inputs(self.op_name, infer, ins)
        made = infer(self, *ins, **named)
        for spec in (made,) if hasattr(made, "shape") else made:
            _check_shape(self.op_name, spec)
        return made

    return checked


@cache
def _signature(infer: Callable[..., Any]) -> tuple[list[str], int, str | None]:
    """The names of the inputs, "" for one that may be None; how many there must be; the name of those that may follow,
    None where none may."""
    code, annotations = infer.__code__, infer.__annotations__
    count, more = code.co_argcount, bool(code.co_flags & _VARIADIC)
    names = [*code.co_varnames[1:count], *code.co_varnames[count + code.co_kwonlyargcount :][:more]]
    inputs = [name if annotations.get(name) == "Spec" else "" for name in names]
    following = inputs.pop() if more else None
    return inputs, len(inputs) - len(infer.__defaults__ or ()), following


def _check_inputs(op: str, infer: Callable[..., Any], ins: tuple[Any, ...]) -> None:
    names, least, following = _signature(infer)
    if len(ins) < least or (len(ins) > len(names) and following is None):
        more = " or more" if following is not None or least < len(names) else ""
        raise UsageError(f"{op}: {len(ins)} inputs; expected {least}{more}")
    for name, given in zip(chain(names, repeat(following)), ins, strict=False):
        if given is None and name:
            raise UsageError(f"{op}: the input {name} is missing")


def _check_shape(op: str, spec: Any) -> None:
    count = spec.dtype.itemsize
    for n in spec.shape:
        if n < 0:
            raise ShapeError(f"{op}: its output would have the shape {spec.shape}; sizes are not negative")
        count *= int(n) or 1
    if count >= MAX_BYTES or len(spec.shape) > MAX_RANK:
        raise ShapeError(f"{op}: its output would have the shape {brief(spec.shape)}, too large for any array")


def brief(value: Any) -> str:
    """A value for a message."""
    shown = repr(value)
    return shown if len(shown) <= 100 else f"{shown[:97]}..."
