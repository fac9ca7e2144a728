"""The NaN check: name the op, and the user's line, where a NaN or infinity first appeared."""

from __future__ import annotations

import os.path
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import local
from types import CodeType
from typing import Any, TypeVar

import numpy as np

from pdl.dtype import Array
from pdl.errors import NumericalError

#: with the separator: beside an installed pdl lie its suites, pdl_cv and others, which are users
PACKAGE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")
_MACHINERY = tuple(PACKAGE + name for name in ("tensor.py", "autograd", "ops", "program", "jit"))
_TRACES: set[CodeType] = set()
F = TypeVar("F", bound=Callable[..., Any])


class _Mode(local):
    """Whether the check is on in this thread; read by `pdl.ops.base.apply`."""

    enabled = False


Anomaly = _Mode()


@contextmanager
def detect_anomaly() -> Iterator[None]:
    """Inside the block the first op of this thread that makes a NaN or infinity out of finite numbers raises
    `NumericalError`.

    The error names the op and the line of user code that called it, also when it happens in the gradient.
    """
    before, Anomaly.enabled = Anomaly.enabled, True
    try:
        yield
    finally:
        Anomaly.enabled = before


def check(op: Any, ins: tuple[Array | None, ...], outs: tuple[Array, ...]) -> None:
    """Raise if an output of `op` is not finite although its inputs are."""
    bad = next((i for i, y in enumerate(outs) if not finite(y)), None)
    if bad is None or not all(finite(x) for x in ins if x is not None):
        return
    y = outs[bad]
    counted = f"{np.isnan(y).sum()} NaN and {np.isinf(y).sum()} infinite of {y.size} values"
    raise NumericalError(f"{type(op).__name__}: {counted}, from finite inputs, called at {user_line()}")


def finite(x: Array) -> bool:
    """True where every value is finite; integers always are."""
    return x.dtype.kind in "iub" or bool(np.isfinite(x).all())


def begins_trace(function: F) -> F:
    """Decorator of functions that trace their argument: what they call is traced, their callers are not."""
    _TRACES.add(function.__code__)  # type: ignore[attr-defined]
    return function


def user_line() -> str:
    """'file:line' of the nearest caller outside the package; where only code of the package is being traced (its
    layers, under `pdl.Model`), the nearest line of that which is not the tensor's or an op's own."""
    frame, inside = sys._getframe(1), None
    while (caller := frame.f_back) is not None and frame.f_code.co_filename.startswith(PACKAGE):
        if inside is None and not frame.f_code.co_filename.startswith(_MACHINERY):
            inside = frame
        if inside is not None and frame.f_code in _TRACES:
            frame = inside
            break
        frame = caller
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"
