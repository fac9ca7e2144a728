"""What rewritten code calls: each helper looks at its argument and either does what Python does, or writes a node.

A *symbolic* tensor is one whose values are known only when the program runs. Everything else, and everything outside a
trace, is plain Python.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterable, Iterator
from types import FunctionType
from typing import Any

from pdl import ops
from pdl.jit import flow
from pdl.jit.calls import call
from pdl.jit.errors import ConversionError, Place
from pdl.jit.lazy import Lazy
from pdl.jit.symbolic import is_symbolic, scalar, truth
from pdl.nn.module import Buffer, Module
from pdl.ops.base import apply, assign
from pdl.program.block import BranchRecorder
from pdl.program.control import Assert
from pdl.tensor import Tensor, _Tracing

_ONCE = ": it would happen when the program is made and not when it runs"
_UNBOUNDED = 1_000  # iterations of a plain iterator that only a tensor could stop
_COMPARE: dict[str, Callable[[Any, Any], Any]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
    "in": lambda a, b: a in b, "not in": lambda a, b: a not in b, "is": operator.is_, "is not": operator.is_not,
}  # fmt: skip


# -- statements --------------------------------------------------------------------------------------------------------
def if_(test: Any, then: FunctionType, other: FunctionType, names: tuple[str, ...], line: int) -> None:
    """``if test: then() else: other()``."""
    if is_symbolic(test):
        flow.branch(test, then, other, names, _place(then, line))
    elif test:
        then()
    else:
        other()


def while_(test: FunctionType, body: FunctionType, names: tuple[str, ...], line: int, test_writes: bool) -> None:
    """``while test(): body()``; a node from the iteration on whose test is symbolic."""
    while True:
        go = test()
        if is_symbolic(go):
            return flow.loop(test, body, names, _place(body, line), test_writes=test_writes)
        if not go:
            return None
        body()


def for_(iterable: Any, body: FunctionType, go: FunctionType | None, names: tuple[str, ...], line: int) -> None:
    """``for item in iterable: body(item)`` while ``go()``; unrolled unless the number of items is symbolic."""
    place = _place(body, line)
    if isinstance(iterable, Lazy):
        return flow.counted_loop(iterable, body, go, names, place)
    for count, item in enumerate(iterable):
        go_on = go is None or go()
        if is_symbolic(go_on):
            _require_end(iterable, count, place)
            _guarded(go_on, body, item, names, place)
        elif go_on:
            body(item)
        else:
            return None
    return None


def _guarded(go_on: Any, body: FunctionType, item: Any, names: tuple[str, ...], place: Place) -> None:
    flow.branch(go_on, lambda: body(item), lambda: None, names, place, body)


def _require_end(iterable: Any, count: int, place: Place) -> None:
    endless = isinstance(iterable, itertools.count | itertools.cycle)
    if endless or (count >= _UNBOUNDED and not hasattr(iterable, "__len__")):
        raise ConversionError("the loop ends by a tensor only, and its iterator never does; use while", place)


def none_of(*flags: Any) -> Any:
    """Whether no flag is set."""
    symbolic = [f for f in flags if is_symbolic(f)]
    if any(f for f in flags if not is_symbolic(f)):
        return False
    if not symbolic:
        return True
    some = symbolic[0]
    for f in symbolic[1:]:
        some = ops.logical_or(some, f)
    return ops.logical_not(some)


def assert_(test: Any, message: FunctionType | None, line: int) -> None:
    """``assert test, message()``."""
    if not is_symbolic(test):
        if not test:
            raise AssertionError(*(() if message is None else (message(),)))
        return
    text = "" if message is None else str(message())
    where = Place(*_caller(line))
    apply(Assert(f"{text}\n  at {where}: {where.text}".lstrip("\n ")), truth(test))


def effect(what: str, line: int) -> None:
    """Refuse what a branch that is not taken would do as well."""
    recorder = _Tracing.recorder
    if isinstance(recorder, BranchRecorder) and recorder.outer is not None:
        kind = "loop" if recorder.loop else "branch"
        raise ConversionError(f"{what} inside a {kind} that depends on a tensor", Place(*_caller(line)))


def change(what: str, root: Any, outside: bool, line: int) -> None:
    """Refuse, in a trace, changes of what is there before and after it: modules, objects from outside the function."""
    effect(what, line)
    if _Tracing.recorder is not None and (outside or isinstance(root, Module)):
        raise ConversionError(f"{what}{_ONCE}; return the value", Place(*_caller(line)))


def item_effect(owner: Any, what: str, line: int) -> None:
    """Items of local lists and dicts may be written in branches; others may not."""
    if isinstance(owner, Tensor) and _Tracing.recorder is not None:
        raise ConversionError(f"{what}, an item of a tensor; use pdl.where or pdl.scatter", Place(*_caller(line)))
    if not isinstance(owner, list | dict):
        effect(what, line)


def set_attribute(owner: Any, name: str, value: Any, line: int) -> None:
    """``owner.name = value``; in a trace a buffer gets its new values at the end of the program."""
    if _Tracing.recorder is None:
        return setattr(owner, name, value)
    now = getattr(owner, "__dict__", {}).get(name)
    if isinstance(now, Buffer) and isinstance(value, Tensor):
        return assign(now, value)
    effect(f"attribute {name!r} is written", line)
    if isinstance(owner, Module):
        reason = f"attribute {name!r} of a module is written{_ONCE}; use a Buffer, or return the value"
        raise ConversionError(reason, Place(*_caller(line)))
    return setattr(owner, name, value)


# -- expressions -------------------------------------------------------------------------------------------------------
def and_(first: Any, cheap: bool, line: int, *rest: FunctionType) -> Any:
    """``first and rest()...``."""
    return _chain(first, cheap, Place(*_caller(line)), rest, stop_at=False)


def or_(first: Any, cheap: bool, line: int, *rest: FunctionType) -> Any:
    """``first or rest()...``."""
    return _chain(first, cheap, Place(*_caller(line)), rest, stop_at=True)


def _chain(value: Any, cheap: bool, place: Place, rest: Iterable[FunctionType], *, stop_at: bool) -> Any:
    waiting: Iterator[FunctionType] = iter(rest)
    for more in waiting:
        if not is_symbolic(value):
            if bool(value) is stop_at:
                return value
            value = more()
        elif cheap:
            value = _combined(value, more(), stop_at)
        else:
            value = _pick(value, more, stop_at, place)
    return value


def _pick(value: Any, more: Callable[[], Any], stop_at: bool, place: Place | None) -> Any:
    """``value or more()`` where `stop_at`, else ``value and more()``; more() only where Python would call it."""

    def same() -> Any:
        return _flat_bool(value)

    def other() -> Any:
        return _flat_bool(more())

    ways = (same, other) if stop_at else (other, same)
    return flow.choice(truth(value), *ways, place=place)


def _flat_bool(value: Any) -> Any:
    """A bool of one element without dimensions: comparisons of x[0:1] and x[0] may meet in one `and`."""
    return truth(value) if isinstance(value, Tensor) and value.dtype.kind == "b" and value.size == 1 else value


def _combined(a: Any, b: Any, stop_at: bool) -> Any:
    """`_pick` for a value b that is there already: values, not truths, as in Python."""
    if isinstance(b, bool) and a.dtype.kind == "b":
        return b if b is stop_at else a
    if isinstance(b, Tensor) and a.dtype.kind == "b" and b.dtype.kind == "b":
        return (ops.logical_or if stop_at else ops.logical_and)(truth(a), truth(b))
    return _pick(a, lambda: b, stop_at, None)


def not_(value: Any) -> Any:
    """``not value``."""
    return ops.logical_not(truth(value)) if is_symbolic(value) else not value


def compare(signs: tuple[str, ...], line: int, left: Any, *rest: FunctionType) -> Any:
    """``left < b() < c()``: every operand once."""
    value: Any = True
    for sign, more in zip(signs, rest, strict=True):
        right = more()
        here = _COMPARE[sign](left, right)
        value = _combined(value, here, False) if is_symbolic(value) else here
        if not is_symbolic(value) and not value:
            return value
        left = right
    return value


def choose(test: Any, then: FunctionType, other: FunctionType, line: int) -> Any:
    """``then() if test else other()``."""
    if is_symbolic(test):
        return flow.choice(truth(test), then, other, place=_place(then, line))
    return then() if test else other()


# -- places ------------------------------------------------------------------------------------------------------------
def _place(function: Any, line: int) -> Place:
    return Place(function.__code__.co_filename, line)


def _caller(line: int) -> tuple[str, int]:
    """The file of the rewritten code that called a helper."""
    import sys

    frame = sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "") == __name__:
        frame = frame.f_back
    return frame.f_code.co_filename, line


__all__ = [
    "and_", "assert_", "call", "change", "choose", "compare", "effect", "for_", "if_", "item_effect", "none_of",
    "not_", "or_", "scalar", "set_attribute", "while_",
]  # fmt: skip
