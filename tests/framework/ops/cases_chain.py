"""Chains against their steps in NumPy: operands of all layouts, blocks with tails, all the binary functions."""

from __future__ import annotations

import numpy as np

from pdl.ops.base import apply
from pdl.ops.chain import Chain

from .case import Draws, forward
from .cases_inference import FUNCTIONS

f = Draws(3).f
BINARY = {
    "add": np.add, "subtract": np.subtract, "multiply": np.multiply, "divide": np.divide, "maximum": np.maximum,
    "minimum": np.minimum,
}  # fmt: skip


def chain(*inputs, steps):
    return apply(Chain(steps), *inputs)


def by_steps(*inputs, steps):
    y = inputs[0]
    for name, *values in steps:
        if name in BINARY:
            other = inputs[values[0]]
            y = BINARY[name](other, y) if values[1:] == [True] else BINARY[name](y, other)
        else:
            y = FUNCTIONS[name](y, *values)
    return y


def positive(*shape):
    return f(*shape, low=0.5, high=2)


CASES = [
    forward(chain, [f(3, 4)], by_steps, {"steps": (("silu",), ("clip", -0.1, 0.3))}),
    forward(chain, [f(2, 5, 7, 12), f(2, 1, 1, 12)], by_steps, {"steps": (("multiply", 1), ("add", 0))}),
    forward(chain, [f(2, 5, 7, 12), f(12), f(1)], by_steps,
         {"steps": (("multiply", 1), ("hardswish",), ("subtract", 2, True))}),
    forward(chain, [f(3, 70, 33), f(3, 70, 33), f(33), f(3, 1, 33), np.array(0.3)], by_steps,
         {"steps": (("add", 1), ("maximum", 2), ("multiply", 3), ("minimum", 4), ("gelu",))}),
    forward(chain, [f(2, 3, 1100), f(2, 1, 1100), f(1100)], by_steps, {"steps": (("multiply", 1), ("add", 2))}),
    forward(chain, [f(4, 600), f(4, 1), f(600)], by_steps, {"steps": (("subtract", 1), ("relu",), ("add", 2))}),
    forward(chain, [f(2, 50, 3), f(2, 50, 1), f(2, 1, 3)], by_steps, {"steps": (("multiply", 1), ("add", 2))}),
    forward(chain, [f(5000), positive(1), f(5000)], by_steps,
         {"steps": (("divide", 1), ("add", 2), ("sigmoid",))}),
    forward(chain, [positive(2, 9, 40), positive(40), f(2, 9, 40)], by_steps,
         {"steps": (("divide", 1, True), ("subtract", 2), ("square",))}, bf16=0.3),
    forward(chain, [f(40, 30, 64), f(64), f(64)], by_steps, {"steps": (("multiply", 1), ("add", 2), ("silu",))}),
    forward(chain, [f(6), f(1, 6)[0]], by_steps, {"steps": ()}),
    forward(chain, [f(0, 3), f(3)], by_steps, {"steps": (("add", 1),)}),
    forward(chain, [np.array(0.4), np.array(-0.3)], by_steps, {"steps": (("add", 1), ("square",))}),
]  # fmt: skip
