"""Control flow: the ops that hold programs, applied to blocks traced from small functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import pdl
from pdl.ops.base import Spec, apply
from pdl.program import Block
from pdl.program.block import BranchRecorder
from pdl.program.control import Assert, Call, Cond, Print, While

from .case import Case, Draws

f = Draws(5).f


def block(function: Callable[..., Any], *xs: Any) -> Block:
    """A closed program of a function, for inputs like these."""
    recorder = BranchRecorder(function.__name__)
    with recorder.active():
        ys = function(*[recorder.input(Spec(x.shape, x.dtype), f"x{i}") for i, x in enumerate(xs)])
    return Block(recorder.finish(ys if isinstance(ys, tuple) else (ys,)))


def up(x: Any, w: Any) -> Any:
    return x * w + pdl.tanh(x), w * 2


def down(x: Any, w: Any) -> Any:
    return x - w * w, pdl.exp(w)


def cond(pred: Any, x: Any, w: Any) -> Any:
    return apply(Cond(block(up, x, w), block(down, x, w)), pred, x, w)


def below(k: Any, x: Any, w: Any) -> Any:
    return k < 3


def body(k: Any, x: Any, w: Any) -> Any:
    return k + 1, pdl.tanh(x * w) + x


def while_loop(k: Any, x: Any, w: Any, maximum: int | None = None) -> Any:
    op = While(block(below, k, x, w), block(body, k, x, w), 2, maximum)
    return apply(op, k, x, w)[1]


def while_reference(k: Any, x: Any, w: Any, maximum: int | None = None) -> Any:
    for _ in range(max(0, 3 - int(k)) if maximum is None else maximum):
        x = np.tanh(x * w) + x
    return x


def call(x: Any, w: Any) -> Any:
    made = block(up, x, w)
    wanted = (x.requires_grad, w.requires_grad)
    return apply(Call(made, wanted, 2), x, w)[:2]


def print_(x: Any) -> Any:
    apply(Print(("", "")), x)
    return x * 1


def assert_(x: Any) -> Any:
    apply(Assert("no"), x.sum() > -100)
    return x * 1


def both(x: Any, w: Any) -> Any:
    return x * w + np.tanh(x), w * 2


T, F = np.array(True), np.array(False)
CASES = [
    Case(cond, [T, f(2, 3), f(3)], lambda p, x, w: both(x, w)),
    Case(cond, [F, f(2, 3), f(3)], lambda p, x, w: (x - w * w, np.exp(w))),
    *(Case(while_loop, [np.array(k), f(2, 3), f(3)], while_reference) for k in (0, 2, 5)),
    Case(while_loop, [np.array(0), f(2, 3), f(3)], while_reference, {"maximum": 2}),
    Case(call, [f(2, 3), f(3)], both),
    Case(print_, [f(2)], lambda x: x),
    Case(assert_, [f(2)], lambda x: x),
]  # fmt: skip
