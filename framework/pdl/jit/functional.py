"""`cond` and `while_loop`: control flow as functions, for code that is traced without being rewritten."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from pdl.errors import UsageError
from pdl.jit import flow
from pdl.jit.errors import Place
from pdl.jit.symbolic import is_symbolic
from pdl.tensor import Tensor, TensorLike, _Tracing, as_tensor


def cond(pred: Any, true_fn: Callable[..., Any], false_fn: Callable[..., Any], *operands: Any) -> Any:
    """``true_fn(*operands)`` where `pred` (one element) holds, else ``false_fn(*operands)``.

    In a program both are traced, and their results must agree in structure, shapes and dtypes. Gradients flow through
    the branch taken, to operands and to tensors that the functions read from outside.
    """
    if is_symbolic(pred):
        return flow.cond_of(pred, true_fn, false_fn, operands, _caller())
    return true_fn(*operands) if pred else false_fn(*operands)


def while_loop(
    cond_fn: Callable[..., Any],
    body_fn: Callable[..., Any],
    state: Tensor | Sequence[TensorLike],
    maximum: int | None = None,
) -> Any:
    """``state = body_fn(*state)`` while ``cond_fn(*state)`` holds, at most `maximum` times; the last state.

    The state keeps its shapes and dtypes. A tuple of tensors comes back as a tuple, one tensor as a tensor. Gradients
    flow through the iterations that ran, to the first state and to tensors that the functions read from outside.
    """
    alone = isinstance(state, Tensor)
    now = (state,) if isinstance(state, Tensor) else tuple(as_tensor(x) for x in state)
    if not now:
        raise UsageError("while_loop: the state is empty; give the tensors that an iteration changes")
    if maximum is not None and maximum < 0:
        raise UsageError(f"while_loop: maximum is {maximum}; expected at least 0, or None")
    place = _caller()
    if _Tracing.recorder is not None:
        now = flow.while_of(cond_fn, body_fn, now, maximum, place)
    else:
        done = 0
        while (maximum is None or done < maximum) and cond_fn(*now):
            now = tuple(
                flow.as_tensor(y, x) for y, x in zip(flow.check_state(now, body_fn(*now), place), now, strict=True)
            )
            done += 1
    return now[0] if alone else now


def _caller() -> Place:
    frame = sys._getframe(2)
    return Place(frame.f_code.co_filename, frame.f_lineno)
