"""Recurrent layers over [N, L, C]: LSTM, GRU and the plain tanh net, with PyTorch's equations and gate order.

The input projection of all steps is one matrix product; a step then costs one product with the state and one fused
cell. Weights are [in, out]: PyTorch's ``weight_ih_l0.T`` and ``weight_hh_l0.T``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np

from pdl.errors import DtypeError, ShapeError
from pdl.kernels import cells
from pdl.ops.base import Arrays, Fused, Op, Spec, apply, compose_vjp, demand_floating
from pdl.ops.cast import astype
from pdl.ops.elementwise import tanh, where
from pdl.ops.linalg import linear, matmul
from pdl.ops.precision import in_product
from pdl.ops.shape import concat, permute_dims, split, stack
from pdl.tensor import Array, Tensor

#: (w_ih [C, G H], w_hh [H, G H], b_ih [G H] or None, b_hh [G H] or None), with G gates
Weights = Sequence[Any]
State = tuple[Tensor, ...]
Cell = Callable[[Tensor, State], State]


# -- ops ---------------------------------------------------------------------------------------------------------------
class Steps(Op):
    """The L slices of x [L, ...], as views; one op, so that the gradient is assembled once and not slice by slice."""

    native_bf16 = True

    def infer(self, x: Spec) -> tuple[Spec, ...]:
        return tuple(Spec(x.shape[1:], x.dtype) for _ in range(x.shape[0]))

    def run(self, ins: tuple[Any, ...]) -> Arrays:
        return tuple(ins[0])

    def vjp(self, g: Any, y: Any, x: Tensor) -> Any:
        gs = g if isinstance(g, tuple) else (g,)
        zero = np.zeros(x.shape[1:], x.dtype)
        return lambda: stack([Tensor(zero) if d is None else d for d in gs])


def _sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + exp(-x)) by tanh, which overflows nowhere."""
    return tanh(x * 0.5) * 0.5 + 0.5


def _contiguous(ins: tuple[Any, ...]) -> list[Any]:
    return [None if x is None else np.ascontiguousarray(x) for x in ins]


def _check_cell(name: str, count: int, h: Spec, /, **inputs: Spec) -> None:
    demand_floating(name, **inputs)
    for label, x in inputs.items():
        if x.shape != (h.shape[0], count * h.shape[1]):
            raise ShapeError(f"{name}: {label} {x.shape} does not hold {count} gates for a state {h.shape}")


class LstmCell(Fused):
    """(h', c') from gates [N, 4 H] (in the order i, f, g, o) and c [N, H]: c' = s(f) c + s(i) tanh(g), h' = s(o)
    tanh(c'), s the logistic function."""

    def infer(self, gates: Spec, c: Spec) -> tuple[Spec, Spec]:
        _check_cell("lstm", 4, c, gates=gates)
        return c, c

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        cells.lstm(*outs, *_contiguous(ins))

    def compose(self, gates: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        i, f, g, o = split(gates, c.shape[1], axis=1)
        after = _sigmoid(f) * c + _sigmoid(i) * tanh(g)
        return _sigmoid(o) * tanh(after), after

    def vjp(self, g: Any, y: Any, gates: Tensor, c: Tensor) -> Any:
        return apply(LstmCellGrad(), *g, gates, c)


class LstmCellGrad(Fused):
    """(dgates, dc) of `LstmCell` from the gradients of h' and c' (either may be absent), gates and c."""

    def infer(self, gh: Spec | None, gc: Spec | None, gates: Spec, c: Spec) -> tuple[Spec, Spec]:
        return gates, c

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        cells.lstm_grad(*outs, *_contiguous(ins))

    def compose(self, gh: Tensor | None, gc: Tensor | None, gates: Tensor, c: Tensor) -> tuple[Tensor, ...]:
        return _gradients(LstmCell().compose, (gh, gc), gates, c)


class GruCell(Fused):
    """h' from gi, gh [N, 3 H] (in the order r, z, n) and h [N, H]: r = s(gi_r + gh_r), z = s(gi_z + gh_z),
    n = tanh(gi_n + r gh_n), h' = (1 - z) n + z h."""

    def infer(self, gi: Spec, gh: Spec, h: Spec) -> Spec:
        _check_cell("gru", 3, h, gi=gi, gh=gh)
        return h

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        cells.gru(*outs, *_contiguous(ins))

    def compose(self, gi: Tensor, gh: Tensor, h: Tensor) -> Tensor:
        (ir, iz, i_n), (hr, hz, hn) = split(gi, h.shape[1], axis=1), split(gh, h.shape[1], axis=1)
        z = _sigmoid(iz + hz)
        n = tanh(i_n + _sigmoid(ir + hr) * hn)
        return n + z * (h - n)

    def vjp(self, g: Tensor, y: Tensor, gi: Tensor, gh: Tensor, h: Tensor) -> Any:
        return apply(GruCellGrad(), g, gi, gh, h)


class GruCellGrad(Fused):
    """(dgi, dgh, dh) of `GruCell`."""

    def infer(self, g: Spec, gi: Spec, gh: Spec, h: Spec) -> tuple[Spec, Spec, Spec]:
        return gi, gh, h

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        cells.gru_grad(*outs, *_contiguous(ins))

    def compose(self, g: Tensor, gi: Tensor, gh: Tensor, h: Tensor) -> tuple[Tensor, ...]:
        return _gradients(GruCell().compose, g, gi, gh, h)


def _gradients(function: Callable[..., Any], g: Any, *ins: Tensor) -> tuple[Tensor, ...]:
    """The gradients of a composition with respect to all of its inputs, those that carry none included."""
    tracked = tuple(x if x.requires_grad else Tensor(x.data, requires_grad=True) for x in ins)
    found = compose_vjp(function, g, tracked)
    return tuple(Tensor(np.zeros(x.shape, x.dtype)) if d is None else d for d, x in zip(found, ins, strict=True))


# -- running over time -------------------------------------------------------------------------------------------------
def _lstm_cell(weights: Weights) -> Cell:
    w_hh = weights[1]
    return lambda gates, state: apply(LstmCell(), gates + matmul(state[0], w_hh), state[1])


def _gru_cell(weights: Weights) -> Cell:
    _, w_hh, _, b_hh = weights
    return lambda gates, state: (apply(GruCell(), gates, linear(state[0], w_hh, b_hh), state[0]),)


def _tanh_cell(weights: Weights) -> Cell:
    w_hh = weights[1]
    return lambda gates, state: (tanh(gates + matmul(state[0], w_hh)),)


def _scan(
    cell: Cell, gates: Tensor, state: State, masks: list[Tensor] | None, reverse: bool
) -> tuple[list[Tensor], State]:
    """Run the cell over time-major gates [L, N, G H]; where a sequence has ended its state stays as it is."""
    steps = apply(Steps(), gates)
    steps = steps if isinstance(steps, tuple) else (steps,)
    outs: list[Any] = [None] * len(steps)
    for t in reversed(range(len(steps))) if reverse else range(len(steps)):
        new = cell(steps[t], state)
        state = new if masks is None else tuple(where(masks[t], n, s) for n, s in zip(new, state, strict=True))
        outs[t] = state[0]
    return outs, state


def _check(name: str, x: Tensor, weights: Sequence[Weights], gates: int, directions: int) -> int:
    """The state's size; raises where a weight does not fit."""
    if x.ndim != 3 or 0 in x.shape[:2]:
        raise ShapeError(f"{name}: x {x.shape} must be [N, L, C] with N and L at least 1")
    if not weights or len(weights) % directions:
        raise ShapeError(f"{name}: {len(weights)} groups of weights do not make layers of {directions} directions")
    first = weights[0][1]
    hidden = first.shape[0] if first is not None and first.ndim == 2 else 0
    for number, group in enumerate(weights):
        width = x.shape[2] if number < directions else directions * hidden
        shapes = ((width, gates * hidden), (hidden, gates * hidden), (gates * hidden,), (gates * hidden,))
        if len(group) != 4 or group[0] is None or group[1] is None:
            raise ShapeError(f"{name}: weights[{number}] must be (w_ih, w_hh, b_ih or None, b_hh or None)")
        for label, w, shape in zip(("w_ih", "w_hh", "b_ih", "b_hh"), group, shapes, strict=True):
            if w is not None and w.shape != shape:
                raise ShapeError(
                    f"{name}: {label} of weights[{number}] is {w.shape}; "
                    f"{width} inputs and a state of {hidden} need {shape}"
                )
            if w is not None and w.dtype != x.dtype:
                raise DtypeError(
                    f"{name}: {label} of weights[{number}] is {w.dtype.name}, x is {x.dtype.name}; astype one of them"
                )
    return hidden


def _initial(name: str, given: Sequence[Tensor | None], groups: int, x: Tensor, hidden: int) -> list[State]:
    """The states at the start, one tuple for each group of weights."""
    shape = (groups, x.shape[0], hidden)
    states = []
    for s in given:
        if s is not None and s.shape != shape:
            raise ShapeError(f"{name}: the initial state {s.shape} must be [layers * directions, N, H] = {shape}")
        states.append([Tensor(np.zeros(shape[1:], x.dtype))] * groups if s is None else [s[k] for k in range(groups)])
    return list(zip(*states, strict=True))


def _masks(name: str, lengths: Any, x: Tensor) -> Array | None:
    """[L, N] True where a step lies inside its sequence."""
    if lengths is None:
        return None
    values = np.asarray(lengths.data if isinstance(lengths, Tensor) else lengths)
    if values.shape != x.shape[:1] or values.dtype.kind not in "iu" or values.min() < 0 or values.max() > x.shape[1]:
        raise ShapeError(
            f"{name}: lengths {values.tolist()} must be {x.shape[0]} integers from 0 to {x.shape[1]}, "
            f"the steps of x {x.shape}"
        )
    return np.arange(x.shape[1])[:, None] < values


def _layers(
    name: str, x: Tensor, weights: Sequence[Weights], initial: Sequence[Tensor | None], lengths: Any, bidirectional:
    bool, gates: int, make_cell: Callable[[Weights], Cell], add_hidden_bias: bool,
) -> tuple[Tensor, State]:  # fmt: skip
    directions = 2 if bidirectional else 1
    x, *initial = cast(list[Tensor], in_product(x, *initial))
    weights = [cast(Weights, in_product(*group)) for group in weights]
    hidden = _check(name, x, weights, gates, directions)
    states = _initial(name, initial, len(weights), x, hidden)
    inside = _masks(name, lengths, x)
    masks = None if inside is None else [Tensor(row[:, None]) for row in inside]
    y = permute_dims(x, (1, 0, 2))  # time first: the slices of a step are contiguous
    finals: list[State] = []
    for layer in range(0, len(weights), directions):
        found = []
        for way in range(directions):
            group = weights[layer + way]
            bias = (
                group[2]
                if group[3] is None or not add_hidden_bias
                else group[3]
                if group[2] is None
                else group[2] + group[3]
            )
            outs, final = _scan(make_cell(group), linear(y, group[0], bias), states[layer + way], masks, way == 1)
            found.append(stack(outs))
            finals.append(final)
        y = found[0] if directions == 1 else concat(found, axis=2)
        if inside is not None:
            y = y * astype(Tensor(inside[:, :, None]), y.dtype)
    return permute_dims(y, (1, 0, 2)), tuple(stack([f[k] for f in finals]) for k in range(len(initial)))


# -- public functions --------------------------------------------------------------------------------------------------
def lstm(
    x: Tensor,
    weights: Sequence[Weights],
    *,
    initial: tuple[Tensor | None, Tensor | None] = (None, None),
    lengths: Any = None,
    bidirectional: bool = False,
) -> tuple[Tensor, tuple[Tensor, Tensor]]:
    """Long short-term memory (Hochreiter and Schmidhuber 1997, with forget gates).    x [N, L, C] -> y [N, L, D H], (h,
    c) [layers D, N, H]

    i, f, g, o = split(x_t w_ih + b_ih + h w_hh + b_hh); c' = s(f) c + s(i) tanh(g); h' = s(o) tanh(c'), s the logistic
    function. `weights`: one group (w_ih [C, 4 H], w_hh [H, 4 H], b_ih or None, b_hh or None) for each layer and
    direction, layer by layer, forward before backward (D = 2 with `bidirectional`); a deeper layer reads C = D H.
    `initial` (h, c) [layers D, N, H], zeros where None. `lengths` [N]: steps from there on are padding; y is 0 there,
    the final state is that of the last real step, the backward direction starts at it.
    """
    y, state = _layers("lstm", x, weights, initial, lengths, bidirectional, 4, _lstm_cell, True)
    return y, (state[0], state[1])


def gru(
    x: Tensor,
    weights: Sequence[Weights],
    *,
    initial: Tensor | None = None,
    lengths: Any = None,
    bidirectional: bool = False,
) -> tuple[Tensor, Tensor]:
    """Gated recurrent unit (Cho et al. 2014, in the form of cuDNN and PyTorch).    x [N, L, C] -> y [N, L, D H], h
    [layers D, N, H]

    r, z, n in this order: r = s(i_r + h_r), z = s(i_z + h_z), n = tanh(i_n + r h_n), h' = (1 - z) n + z h with i = x_t
    w_ih + b_ih and h_* = h w_hh + b_hh, s the logistic function. Arguments as in `lstm`, with three gates.
    """
    y, state = _layers("gru", x, weights, (initial,), lengths, bidirectional, 3, _gru_cell, False)
    return y, state[0]


def rnn_tanh(
    x: Tensor,
    weights: Sequence[Weights],
    *,
    initial: Tensor | None = None,
    lengths: Any = None,
    bidirectional: bool = False,
) -> tuple[Tensor, Tensor]:
    """Elman's net (1990): h' = tanh(x_t w_ih + b_ih + h w_hh + b_hh).    x [N, L, C] -> y [N, L, D H], h [layers D, N,
    H]

    Arguments as in `lstm`, with one gate.
    """
    y, state = _layers("rnn_tanh", x, weights, (initial,), lengths, bidirectional, 1, _tanh_cell, True)
    return y, state[0]


__all__ = ["gru", "lstm", "rnn_tanh"]
