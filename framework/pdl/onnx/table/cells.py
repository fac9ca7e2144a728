"""LSTM, GRU and RNN step by step in pdl's ops: every activation, clipping, peepholes, weights that a graph computes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from pdl import ops
from pdl.errors import ShapeError, UsageError
from pdl.onnx.registry import Context, NeedsValue
from pdl.onnx.values import tensor
from pdl.program.tracing import is_tracing
from pdl.tensor import Tensor

Function = Callable[[Tensor], Tensor]


class Options(NamedTuple):
    """The attributes of the nodes."""

    direction: str
    layout: int
    activations: Any
    alpha: Any
    beta: Any
    clip: float
    input_forget: bool = False
    linear_before_reset: bool = False


#: gates, and the activations by default
CELLS: dict[str, tuple[int, tuple[str, ...]]] = {
    "lstm": (4, ("Sigmoid", "Tanh", "Tanh")),
    "gru": (3, ("Sigmoid", "Tanh")),
    "rnn": (1, ("Tanh",)),
}
_PLAIN: dict[str, Function] = {
    "sigmoid": ops.sigmoid,
    "tanh": ops.tanh,
    "relu": ops.relu,
    "softsign": ops.softsign,
    "softplus": ops.softplus,
}
#: functions of (x, alpha, beta) with the defaults of these
_WITH_NUMBERS: dict[str, tuple[Callable[[Tensor, float, float], Tensor], float, float]] = {
    "affine": (lambda x, a, b: x * a + b, 1.0, 0.0),
    "leakyrelu": (lambda x, a, b: ops.leaky_relu(x, negative_slope=a), 0.01, 0.0),
    "thresholdedrelu": (lambda x, a, b: ops.where(ops.less(x, a), tensor(np.zeros((), x.dtype)), x), 1.0, 0.0),
    "scaledtanh": (lambda x, a, b: ops.tanh(x * b) * a, 1.0, 1.0),
    "hardsigmoid": (lambda x, a, b: ops.clip(x * a + b, 0.0, 1.0), 0.2, 0.5),
    "elu": (lambda x, a, b: ops.elu(x, alpha=a), 1.0, 0.0),
}
#: steps of one layer that a program holds; beyond, the graph is run step by step
MOST_UNROLLED = 2_000
_TWO_NUMBERS = ("affine", "scaledtanh", "hardsigmoid")


def unrolled(
    ctx: Context, cell: str, x: Any, weights: tuple[Any, Any, Any], lengths: Any, states: tuple[Any, Any],
    peepholes: Any, options: Options,
) -> Any:  # fmt: skip
    """ONNX's outputs for x [L, N, C]: y [L, D, N, H] and the last states [D, N, H]; layout=1: the batch first."""
    x = tensor(x)
    x = ops.permute_dims(x, (1, 0, 2)) if options.layout else x
    if type(x.shape[0]) is not int:
        raise NeedsValue(f"{ctx.node.label()} takes as many steps as a size that is not known")
    if is_tracing() and x.shape[0] > MOST_UNROLLED:
        raise NeedsValue(f"{ctx.node.label()} takes {x.shape[0]:,} steps, too many to write down one by one")
    ways = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}.get(options.direction)
    if ways is None:
        raise UsageError(f"{ctx.node.label()}: direction {options.direction!r} is not known")
    functions = list(_functions(ctx, cell, len(ways), options))
    each = len(CELLS[cell][1])
    ys, finals = [], []
    for way, backwards in enumerate(ways):
        step = _Step(ctx, cell, weights, peepholes, way, functions[way * each : (way + 1) * each], options)
        start = [None if s is None else _first(tensor(s), way, options.layout) for s in states]
        y, last = step.run(x, lengths, start, backwards)
        ys.append(y)
        finals.append(last)
    y = ops.stack(ys, axis=1)
    y = ops.permute_dims(y, (2, 0, 1, 3)) if options.layout else y
    return y, *(ops.stack(column, axis=1 if options.layout else 0) for column in zip(*finals, strict=True))


def _first(state: Tensor, way: int, layout: int) -> Tensor:
    return state[:, way] if layout else state[way]


def _functions(ctx: Context, cell: str, ways: int, options: Options) -> Iterator[Function]:
    """The activations in order; those with numbers take them from `alpha` and `beta` in turn."""
    names = options.activations or CELLS[cell][1] * ways
    if len(names) != len(CELLS[cell][1]) * ways:
        raise UsageError(f"{ctx.node.label()}: {len(names)} activations for {ways} directions")
    alphas, betas = iter(options.alpha or ()), iter(options.beta or ())
    for name in map(str.lower, names):
        if name in _PLAIN:
            yield _PLAIN[name]
        elif name in _WITH_NUMBERS:
            function, alpha, beta = _WITH_NUMBERS[name]
            a, b = next(alphas, alpha), next(betas, beta) if name in _TWO_NUMBERS else beta
            yield lambda v, f=function, a=a, b=b: f(v, a, b)  # type: ignore[misc]
        else:
            raise UsageError(f"{ctx.node.label()}: activation {name!r} is not known")


class _Step:
    """One direction of a layer: its weights, and the equations of a step."""

    def __init__(
        self, ctx: Context, cell: str, weights: tuple[Any, Any, Any], peepholes: Any, way: int,
        functions: list[Function], options: Options,
    ) -> None:  # fmt: skip
        self.cell, self.functions, self.options = cell, functions, options
        w, r, b = weights
        self.w, self.r = (ops.matrix_transpose(tensor(v)[way]) for v in (w, r))
        self.hidden = self.r.shape[0]
        gates = CELLS[cell][0]
        if self.w.shape[1] != gates * self.hidden or self.r.shape[1] != gates * self.hidden:
            raise ShapeError(f"{ctx.node.label()}: weights {tuple(w.shape)} and {tuple(r.shape)} for {gates} gates")
        biases: Any = (None, None) if b is None else ops.chunk(tensor(b)[way], 2)
        self.bias_x, self.bias_h = biases
        self.peepholes: list[Any] = [None] * 3 if peepholes is None else list(ops.chunk(tensor(peepholes)[way], 3))

    def run(self, x: Tensor, lengths: Any, start: list[Any], backwards: bool) -> tuple[Tensor, list[Tensor]]:
        """y [L, N, H] and the last states [N, H]."""
        steps, samples = x.shape[:2]
        zero = ops.broadcast_to(tensor(np.zeros((), x.dtype)), (samples, self.hidden))
        states = [zero if s is None else s for s in start[: 2 if self.cell == "lstm" else 1]]
        gates = ops.linear(x, self.w, self.bias_x)
        rows: list[Any] = [None] * steps
        for t in reversed(range(steps)) if backwards else range(steps):
            new = getattr(self, self.cell)(gates[t], *states)
            if lengths is None:
                rows[t], states = new[0], new
                continue
            inside = ops.expand_dims(ops.greater(tensor(lengths), t), axis=1)
            rows[t] = ops.where(inside, new[0], zero)
            states = [ops.where(inside, n, s) for n, s in zip(new, states, strict=True)]
        return ops.stack(rows, axis=0), states

    def _gate(self, function: Function, x: Tensor) -> Tensor:
        limit = self.options.clip
        return function(ops.clip(x, -limit, limit) if limit else x)

    def _of_state(self, h: Tensor) -> Tensor:
        return ops.linear(h, self.r, self.bias_h)

    def rnn(self, x: Tensor, h: Tensor) -> list[Tensor]:
        """f(x + R h + b)."""
        return [self._gate(self.functions[0], x + self._of_state(h))]

    def gru(self, x: Tensor, h: Tensor) -> list[Tensor]:
        """z, r = f(x + R h + b); n = g(x + R (r h) + b), or g(x + r (R h + b)); h = (1 - z) n + z h."""
        n, (f, g) = self.hidden, self.functions
        both = x[:, : 2 * n] + ops.linear(h, self.r[:, : 2 * n], None if self.bias_h is None else self.bias_h[: 2 * n])
        z, r = ops.chunk(self._gate(f, both), 2, axis=-1)
        last = None if self.bias_h is None else self.bias_h[2 * n :]
        if self.options.linear_before_reset:
            inner = r * ops.linear(h, self.r[:, 2 * n :], last)
        else:
            inner = ops.linear(r * h, self.r[:, 2 * n :], last)
        new = self._gate(g, x[:, 2 * n :] + inner)
        return [(1.0 - z) * new + z * h]

    def lstm(self, x: Tensor, h: Tensor, c: Tensor) -> list[Tensor]:
        """i, o, f = f(x + R h + P c + b); c = f c + i g(x + R h + b); h = o h(c); o sees the new c."""
        f, g, last = self.functions
        p_i, p_o, p_f = self.peepholes
        xi, xo, xf, xc = ops.chunk(x + self._of_state(h), 4, axis=-1)
        i = self._gate(f, xi if p_i is None else xi + p_i * c)
        forget = 1.0 - i if self.options.input_forget else self._gate(f, xf if p_f is None else xf + p_f * c)
        c = forget * c + i * self._gate(g, xc)
        o = self._gate(f, xo if p_o is None else xo + p_o * c)
        return [o * last(c), c]
