"""Whether a tensor has values yet, and its truth."""

from __future__ import annotations

from typing import Any

from pdl import ops
from pdl.autograd.anomaly import user_line
from pdl.errors import TraceError
from pdl.program.ir import is_state
from pdl.program.tracing import Symbol
from pdl.tensor import Tensor, _Tracing


def is_symbolic(x: Any) -> bool:
    """Whether x is a tensor whose values are known only when the program runs: a symbol, or in a trace a parameter."""
    return isinstance(x, Symbol) or (isinstance(x, Tensor) and _Tracing.recorder is not None and is_state(x))


def scalar(x: Tensor) -> Tensor:
    """A tensor with one element, without dimensions."""
    if x.size != 1:
        raise TraceError(f"the truth of a tensor of shape {x.shape} is ambiguous; use pdl.any or pdl.all", user_line())
    return x if not x.ndim else ops.reshape(x, ())


def truth(x: Tensor) -> Tensor:
    """One bool: whether the only element is not 0."""
    one = scalar(x)
    return one if one.dtype.kind == "b" else ops.not_equal(one, 0)
