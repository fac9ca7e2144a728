"""Recurrent layers over [N, L, C]: LSTM, GRU and the plain tanh net, with PyTorch's equations and gate order.

The input projection of all steps is one matrix product; all steps of one direction are one op on it, `Recurrent`.
Weights are [in, out]: PyTorch's ``weight_ih_l0.T`` and ``weight_hh_l0.T``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypeAlias, cast

import numpy as np

from pdl.dtype import bfloat16, float32, int64
from pdl.errors import DtypeError, ShapeError
from pdl.hints import Choice
from pdl.kernels import cells
from pdl.kernels.copies import contiguous
from pdl.ops.base import Arrays, Fused, Op, Spec, apply, compose_vjp
from pdl.ops.checks import check_floating, check_shapes
from pdl.ops.elementwise import tanh, where
from pdl.ops.linalg import linear
from pdl.ops.logic import greater
from pdl.ops.precision import in_full
from pdl.ops.segment import check_ids
from pdl.ops.shape import concat, expand_dims, split, stack
from pdl.tensor import Tensor

#: the kind of a recurrent layer
Cell: TypeAlias = Annotated[str, Choice(cells.CELLS)]
#: (w_ih [C, G H], w_hh [H, G H], b_ih [G H] or None, b_hh [G H] or None), with G gates
Weights = Sequence[Any]


# -- the equations of a step, in ops -----------------------------------------------------------------------------------
def _sigmoid(x: Tensor) -> Tensor:
    """1 / (1 + exp(-x)) by tanh, which overflows nowhere."""
    return tanh(x * 0.5) * 0.5 + 0.5


def _rnn_step(x: Tensor, p: Tensor, h: Tensor, c: Tensor | None) -> tuple[Tensor, Tensor | None, list[Tensor]]:
    h = tanh(x + p)
    return h, None, [h]


def _gru_step(x: Tensor, p: Tensor, h: Tensor, c: Tensor | None) -> tuple[Tensor, Tensor | None, list[Tensor]]:
    (xr, xz, xn), (pr, pz, pn) = split(x, h.shape[1], axis=1), split(p, h.shape[1], axis=1)
    r, z = _sigmoid(xr + pr), _sigmoid(xz + pz)
    n = tanh(xn + r * pn)
    return n + z * (h - n), None, [r, z, n, pn]


def _lstm_step(x: Tensor, p: Tensor, h: Tensor, c: Any) -> tuple[Tensor, Tensor | None, list[Tensor]]:
    i, f, g, o = split(x + p, h.shape[1], axis=1)
    i, f, g, o = _sigmoid(i), _sigmoid(f), tanh(g), _sigmoid(o)
    after = f * c + i * g
    return o * tanh(after), after, [i, f, g, o, c]


_STEPS: dict[str, Callable[..., tuple[Tensor, Tensor | None, list[Tensor]]]] = {
    "rnn": _rnn_step,
    "gru": _gru_step,
    "lstm": _lstm_step,
}


# -- ops ---------------------------------------------------------------------------------------------------------------
class Steps(Op):
    """The L slices x[:, t] of x [N, L, ...], as views; one op, so that the gradient is assembled once and not slice by
    slice."""

    native_bf16 = True

    def infer(self, x: Spec) -> tuple[Spec, ...]:
        return tuple(Spec((x.shape[0], *x.shape[2:]), x.dtype) for _ in range(x.shape[1]))

    def run(self, ins: tuple[Any, ...]) -> Arrays:
        return tuple(ins[0].swapaxes(0, 1))

    def vjp(self, g: Any, y: Any, x: Tensor) -> Any:
        gs = g if isinstance(g, tuple) else (g,)
        zero = np.zeros((x.shape[0], *x.shape[2:]), x.dtype)
        return lambda: stack([Tensor(zero) if d is None else d for d in gs], axis=1)


class Recurrent(Fused):
    """All steps of a recurrent layer in one direction, from what the input gives to the gates.

    Inputs: gates [N, L, G H]; initial states h0 and (lstm) c0 [N, H], or None: zeros; w [H, G H]; bias [G H] or None,
    added to the product with the state; lengths int [N] or None: steps from there on are padding. Outputs: y [N, L, H],
    0 in padding; the last h and (lstm) c [N, H]; for the gradient the kept activations [N, L, A H] and the state before
    each step [N, L, H], 0 in padding. `cell`: "rnn" (G 1, A 1: h'), "gru" (3; 4: r, z, n, the state's part of n),
    "lstm" (4; 5: i, f, g, o, c). Equations: `rnn_tanh`, `gru`, `lstm`.
    """

    cell: Cell
    reverse: bool = False
    native = True

    def infer(
        self, gates: Spec, h0: Spec | None, c0: Spec | None, w: Spec, bias: Spec | None, lengths: Spec | None
    ) -> tuple[Spec, ...]:
        name = self.cell
        check_floating(name, gates=gates, w=w)
        _, count, kept = cells.CELLS[name]
        if len(gates.shape) != 3 or len(w.shape) != 2 or (w.shape[1], gates.shape[2]) != (count * w.shape[0],) * 2:
            raise ShapeError(f"{name}: gates {gates.shape} [N, L, {count} H] do not fit w {w.shape} [H, {count} H]")
        n, steps, hidden = gates.shape[0], gates.shape[1], w.shape[0]
        for label, spec, shape in (("h0", h0, (n, hidden)), ("c0", c0, (n, hidden)), ("bias", bias, w.shape[1:])):
            if spec is not None and spec.shape != shape:
                raise ShapeError(f"{name}: {label} is {spec.shape}; gates {gates.shape} and w {w.shape} need {shape}")
        if lengths is not None:
            check_ids(name, "lengths", lengths)
            if lengths.shape != (n,):
                raise ShapeError(f"{name}: lengths {lengths.shape} must hold one number for each of {n} samples")
        wide = float32 if gates.dtype == bfloat16 else gates.dtype
        states = [Spec((n, hidden), gates.dtype)] * (2 if name == "lstm" else 1)
        return (
            Spec((n, steps, hidden), gates.dtype), *states,
            Spec((n, steps, kept * hidden), wide), Spec((n, steps, hidden), wide),
        )  # fmt: skip

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        gates, h0, c0, w, bias, lengths = ins
        y, h, *c, acts, before = outs
        cells.forward(
            self.cell, y, h, c[0] if c else None, acts, before, *_contiguous(gates, w, bias, h0, c0),
            _lengths(lengths), reverse=self.reverse,
        )  # fmt: skip

    def compose(
        self, gates: Tensor, h0: Tensor | None, c0: Tensor | None, w: Tensor, bias: Tensor | None, lengths: Any
    ) -> tuple[Tensor, ...]:
        zero = Tensor(np.zeros((gates.shape[0], w.shape[0]), gates.dtype))
        h, c = zero if h0 is None else h0, zero if c0 is None else c0
        xs = apply(Steps(), gates)
        xs = xs if isinstance(xs, tuple) else (xs,)
        found: list[Any] = [None] * len(xs)
        for t in reversed(range(len(xs))) if self.reverse else range(len(xs)):
            new, cell, kept = _STEPS[self.cell](xs[t], linear(h, w, bias), h, c)
            row = [new, concat(kept, axis=1), h]
            if lengths is not None:
                inside = expand_dims(greater(lengths, t), axis=1)
                row = [where(inside, value, 0.0) for value in row]
                new, cell = where(inside, new, h), None if cell is None else where(inside, cell, c)
            found[t], h, c = row, new, zero if cell is None else cell
        y, acts, before = (stack(values, axis=1) for values in zip(*found, strict=True))
        return (y, h, c, acts, before) if self.cell == "lstm" else (y, h, acts, before)

    def vjp(self, g: Any, y: Any, gates: Any, h0: Any, c0: Any, w: Any, bias: Any, lengths: Any) -> Any:
        gc = g[2] if self.cell == "lstm" else None
        kept = (y[-2].detach(), y[-1].detach())
        found = apply(RecurrentGrad(self.cell, self.reverse), g[0], g[1], gc, gates, h0, c0, w, bias, lengths, *kept)
        dgates, dh0, dc0, dw, dbias = _named_gradients(self.cell, bias is not None, found)
        return dgates, None if h0 is None else dh0, None if c0 is None else dc0, dw, dbias, None


class RecurrentGrad(Fused):
    """(dgates, dh0, dc0 with lstm, dw, dbias with a bias, workspace with gru) of `Recurrent`.

    Inputs: the gradients of y, h and c (each may be absent), the inputs of `Recurrent`, and what it kept. The workspace
    [N, L, H] is the gradient of the state's part of n.
    """

    cell: Cell
    reverse: bool = False
    native = True

    def infer(self, gy: Any, gh: Any, gc: Any, gates: Spec, h0: Any, c0: Any, w: Spec, bias: Spec | None, lengths: Any,
              acts: Spec, before: Spec) -> tuple[Spec, ...]:  # fmt: skip
        y, *states, kept, held = Recurrent(self.cell, self.reverse).infer(gates, h0, c0, w, bias, lengths)
        expected = {"gy": y, "gh": states[0], "gc": states[-1], "acts": kept, "before": held}
        given = {"gy": gy, "gh": gh, "gc": gc, "acts": acts, "before": before}
        check_shapes(f"gradient of {self.cell}", **{k: (given[k], s.shape) for k, s in expected.items()})
        state = Spec((gates.shape[0], w.shape[0]), gates.dtype)
        states = [state] * (2 if self.cell == "lstm" else 1)
        return (gates, *states, w, *([] if bias is None else [bias]), *([before] if self.cell == "gru" else []))

    def cpu(self, outs: Arrays, ins: tuple[Any, ...]) -> None:
        gy, gh, gc, _, _, _, w, bias, lengths, acts, before = ins
        dgates, dh0, dc0, dw, dbias = _named_gradients(self.cell, bias is not None, outs)
        last = outs[-1] if self.cell == "gru" else None
        gy, gh, gc, w = _contiguous(gy, gh, gc, w)
        cells.backward(
            self.cell, dgates, last, dh0, dc0, dw, dbias, gy, gh, gc, w, _lengths(lengths), acts, before,
            reverse=self.reverse,
        )  # fmt: skip

    def compose(self, gy: Any, gh: Any, gc: Any, gates: Any, h0: Any, c0: Any, w: Any, bias: Any, lengths: Any,
                acts: Any, before: Any) -> tuple[Tensor, ...]:  # fmt: skip
        zero = Tensor(np.zeros((gates.shape[0], w.shape[0]), gates.dtype))
        lstm = self.cell == "lstm"
        given = (gates, zero if h0 is None else h0, (zero if c0 is None else c0) if lstm else None, w, bias, lengths)
        tracked = tuple(x if x is None or x.requires_grad or x is lengths else _tracked(x) for x in given)
        seeds = (gy, gh, gc, None, None) if lstm else (gy, gh, None, None)
        found = compose_vjp(Recurrent(self.cell, self.reverse).compose, seeds, tracked)
        kept = [
            Tensor(np.zeros(x.shape, x.dtype)) if d is None else d
            for d, x in zip(found, given, strict=True)
            if x is not None and x is not lengths
        ]
        return (*kept, Tensor(np.zeros(before.shape, before.dtype))) if self.cell == "gru" else tuple(kept)


def _named_gradients(cell: str, biased: bool, outs: Sequence[Any]) -> tuple[Any, ...]:
    """dgates, dh0, dc0 or None, dw, dbias or None, out of the outputs of `RecurrentGrad`."""
    rest = list(outs)
    dgates, dh0 = rest.pop(0), rest.pop(0)
    dc0 = rest.pop(0) if cell == "lstm" else None
    return dgates, dh0, dc0, rest.pop(0), rest.pop(0) if biased else None


def _tracked(x: Tensor) -> Tensor:
    return Tensor(x.data, requires_grad=True)


def _contiguous(*arrays: Any) -> list[Any]:
    return [contiguous(x) for x in arrays]


def _lengths(lengths: Any) -> Any:
    return contiguous(lengths, int64)


# -- running over time -------------------------------------------------------------------------------------------------
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


def _initial(name: str, given: Tensor | None, groups: int, x: Tensor, hidden: int) -> list[Tensor | None]:
    """A state at the start for each group of weights; None: zeros."""
    shape = (groups, x.shape[0], hidden)
    if given is None:
        return [None] * groups
    if given.shape != shape:
        raise ShapeError(f"{name}: the initial state {given.shape} must be [layers * directions, N, H] = {shape}")
    return [given[k] for k in range(groups)]


def _bias(cell: str, group: Weights) -> tuple[Any, Any]:
    """What is added to the input's part, and to the state's: only the GRU tells them apart."""
    _, _, b_ih, b_hh = group
    if cell == "gru":
        return b_ih, b_hh
    return (b_hh if b_ih is None else b_ih if b_hh is None else b_ih + b_hh), None


def _layers(
    name: str, cell: str, x: Tensor, weights: Sequence[Weights], initial: Sequence[Tensor | None], lengths: Any,
    bidirectional: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    """y, then the last states [layers D, N, H]."""
    directions = 2 if bidirectional else 1
    x, *initial = cast(list[Any], in_full(x, *initial))
    weights = [in_full(*group) for group in weights]
    hidden = _check(name, x, weights, cells.CELLS[cell][1], directions)
    states = [_initial(name, s, len(weights), x, hidden) for s in (*initial, None)[:2]]
    steps = None if lengths is None else lengths if isinstance(lengths, Tensor) else Tensor(np.asarray(lengths))
    finals: list[tuple[Tensor, ...]] = []
    for layer in range(0, len(weights), directions):
        found = []
        for way in range(directions):
            b_ih, b_hh = _bias(cell, group := weights[layer + way])
            start = (states[0][layer + way], states[1][layer + way])
            y, *final, _, _ = apply(Recurrent(cell, way == 1), linear(x, group[0], b_ih), *start, group[1], b_hh, steps)
            found.append(y)
            finals.append(tuple(final))
        x = found[0] if directions == 1 else concat(found, axis=2)
    return x, *(stack(states) for states in zip(*finals, strict=True))


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
    y, h, c = _layers("lstm", "lstm", x, weights, initial, lengths, bidirectional)
    return y, (h, c)


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
    y, h = _layers("gru", "gru", x, weights, (initial,), lengths, bidirectional)
    return y, h


def gru_from_gates(
    gates: Tensor,
    w: Tensor,
    bias: Tensor | None = None,
    *,
    initial: Tensor | None = None,
    lengths: Any = None,
    reverse: bool = False,
) -> tuple[Tensor, Tensor]:
    """One layer of `gru` from what its input gives to the gates, x w_ih + b_ih, which may come from a table: rows of it
    are products with one-hot inputs. `reverse`: from the last real step to the first.    gates [N, L, 3 H], w [H, 3 H],
    bias [3 H] or None, initial [N, H] -> y [N, L, H], h [N, H]
    """
    full: Any = in_full(gates, w, bias, initial)
    steps = None if lengths is None else lengths if isinstance(lengths, Tensor) else Tensor(np.asarray(lengths))
    y, h, _, _ = apply(Recurrent("gru", reverse), full[0], full[3], None, full[1], full[2], steps)
    return y, h


def lstm_from_gates(
    gates: Tensor,
    w: Tensor,
    *,
    initial: tuple[Tensor | None, Tensor | None] = (None, None),
    lengths: Any = None,
    reverse: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """One layer of `lstm` from what its input gives to the gates, x w_ih + b, as `gru_from_gates`.    gates [N, L, 4
    H], w [H, 4 H], initial (h, c) [N, H] or None -> y [N, L, H], h, c [N, H]
    """
    full: Any = in_full(gates, w, *initial)
    steps = None if lengths is None else lengths if isinstance(lengths, Tensor) else Tensor(np.asarray(lengths))
    y, h, c, *_ = apply(Recurrent("lstm", reverse), full[0], full[2], full[3], full[1], None, steps)
    return y, h, c


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
    y, h = _layers("rnn_tanh", "rnn", x, weights, (initial,), lengths, bidirectional)
    return y, h


__all__ = ["gru", "gru_from_gates", "lstm", "lstm_from_gates", "rnn_tanh"]
