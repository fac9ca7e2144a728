"""LSTM, GRU and RNN, on pdl's recurrent kernels where activations are the usual ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from pdl import ops
from pdl.dtype import Array
from pdl.errors import UsageError
from pdl.onnx.registry import Context, onnx_op
from pdl.onnx.table.cells import Options, unrolled
from pdl.onnx.values import is_known, tensor
from pdl.ops.base import apply
from pdl.ops.rnn import Recurrent
from pdl.tensor import Tensor

#: cell -> (gates, pdl's order of ONNX's gates, the usual activations)
CELLS: dict[str, tuple[int, tuple[int, ...], tuple[str, ...]]] = {
    "lstm": (4, (0, 2, 3, 1), ("Sigmoid", "Tanh", "Tanh")),  # ONNX: i, o, f, c; pdl: i, f, g, o
    "gru": (3, (1, 0, 2), ("Sigmoid", "Tanh")),  # ONNX: z, r, h; pdl: r, z, n
    "rnn": (1, (0,), ("Tanh",)),
}


@onnx_op("LSTM")
def _lstm(
    ctx: Context, x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, h: Any = None, c: Any = None,
    p: Any = None, *, activation_alpha: Any = None, activation_beta: Any = None, activations: Any = None,
    clip: float = 0.0, direction: str = "forward", hidden_size: int = 0, input_forget: int = 0, layout: int = 0,
) -> Any:  # fmt: skip
    """Long short-term memory; gates i, o, f, c."""
    options = Options(
        direction, layout, activations, activation_alpha, activation_beta, clip, input_forget=bool(input_forget)
    )
    if p is not None or input_forget or _unusual("lstm", options) or not is_known(*_given(w, r, b)):
        return unrolled(ctx, "lstm", x, (w, r, b), lengths, (h, c), p, options)
    return _run(ctx, "lstm", x, (w, r, b), lengths, (h, c), direction, layout)


@onnx_op("GRU")
def _gru(
    ctx: Context, x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, h: Any = None, *,
    activation_alpha: Any = None, activation_beta: Any = None, activations: Any = None, clip: float = 0.0,
    direction: str = "forward", hidden_size: int = 0, layout: int = 0, linear_before_reset: int = 0,
) -> Any:  # fmt: skip
    """Gated recurrent unit; gates z, r, h. Kernels are for `linear_before_reset`."""
    after = bool(linear_before_reset)
    options = Options(
        direction, layout, activations, activation_alpha, activation_beta, clip, linear_before_reset=after
    )
    if not after or _unusual("gru", options) or not is_known(*_given(w, r, b)):
        return unrolled(ctx, "gru", x, (w, r, b), lengths, (h, None), None, options)
    return _run(ctx, "gru", x, (w, r, b), lengths, (h, None), direction, layout)


@onnx_op("RNN")
def _rnn(
    ctx: Context, x: Any, w: Any, r: Any, b: Any = None, lengths: Any = None, h: Any = None, *,
    activation_alpha: Any = None, activation_beta: Any = None, activations: Any = None, clip: float = 0.0,
    direction: str = "forward", hidden_size: int = 0, layout: int = 0,
) -> Any:  # fmt: skip
    """Elman's net."""
    options = Options(direction, layout, activations, activation_alpha, activation_beta, clip)
    if _unusual("rnn", options) or not is_known(*_given(w, r, b)):
        return unrolled(ctx, "rnn", x, (w, r, b), lengths, (h, None), None, options)
    return _run(ctx, "rnn", x, (w, r, b), lengths, (h, None), direction, layout)


def _given(*xs: Any) -> list[Any]:
    return [x for x in xs if x is not None]


def _unusual(cell: str, options: Options) -> bool:
    """Whether a cell is none that pdl's kernels compute."""
    usual = CELLS[cell][2] * (2 if options.direction == "bidirectional" else 1)
    given = tuple(a.lower() for a in options.activations or usual)
    return bool(options.clip) or given != tuple(a.lower() for a in usual)


def _run(ctx: Context, cell: str, x: Any, weights: Any, lengths: Any, initial: Any, direction: str, layout: int) -> Any:
    """ONNX's outputs: y [L, D, N, H], the last states [D, N, H]; with layout=1 the batch comes first."""
    x = tensor(x)
    x = x if layout else ops.permute_dims(x, (1, 0, 2))  # pdl: [N, L, C]
    reverse = {"forward": (False,), "reverse": (True,), "bidirectional": (False, True)}[direction]
    steps = None if lengths is None else tensor(lengths)
    ys, finals = [], []
    for way, backwards in enumerate(reverse):
        w, r, bias_x, bias_h = _weights(ctx, cell, weights, way)
        start = [None if s is None else _state(s, way, layout) for s in initial]
        gates = ops.linear(x, w, bias_x)
        y, *final, _, _ = apply(Recurrent(cell, backwards), gates, *start, r, bias_h, steps)
        ys.append(y)
        finals.append(final)
    y = ops.stack(ys, axis=2) if layout else ops.permute_dims(ops.stack(ys, axis=0), (2, 0, 1, 3))
    return y, *(ops.stack(states, axis=1 if layout else 0) for states in zip(*finals, strict=True))


def _state(x: Any, way: int, layout: int) -> Any:
    x = tensor(x)
    return x[:, way] if layout else x[way]


def _weights(ctx: Context, cell: str, weights: Any, way: int) -> tuple[Tensor, Tensor, Any, Any]:
    """w [C, G H], r [H, G H], bias of the input's part, bias of the state's part, for one direction."""
    w, r, b = weights
    gates, _, _ = CELLS[cell]

    def matrix(x: Array) -> Tensor:
        made: Tensor = tensor(np.ascontiguousarray(_ordered(cell, x[way]).T))
        return made

    def bias(x: Array) -> tuple[Tensor, Tensor | None]:
        one, two = (_ordered(cell, half) for half in np.split(x[way], 2))
        both = (one, two) if cell == "gru" else (one + two, None)
        return tensor(both[0]), None if both[1] is None else tensor(both[1])

    hidden = r.shape[2]
    if w.shape[1] != gates * hidden or r.shape[1] != gates * hidden:
        raise UsageError(f"weights {w.shape} and {r.shape} do not have {gates} gates")
    key = ("recurrent", cell, way)
    w, r, b = (x._data if isinstance(x, Tensor) else x for x in (w, r, b))
    biases = (None, None) if b is None else ctx.prepared(key, b, bias)
    return ctx.prepared((*key, "w"), w, matrix), ctx.prepared((*key, "r"), r, matrix), *biases


def _ordered(cell: str, x: Array) -> Array:
    """The blocks of gates along the first axis, in pdl's order."""
    gates, order, _ = CELLS[cell]
    blocks = np.split(x, gates)
    return np.concatenate([blocks[i] for i in order])
