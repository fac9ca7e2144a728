"""Recurrent layers, against a loop over samples and steps."""

from __future__ import annotations

import numpy as np

from pdl.ops.rnn import gru, gru_from_gates, lstm, lstm_from_gates, rnn_tanh

from .case import Case, Draws, draws

f = Draws(23).f


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm_step(x, state, w, u, b, d):
    i, g_f, g, o = np.split(x @ w + state[0] @ u + b + d, 4)
    c = sigmoid(g_f) * state[1] + sigmoid(i) * np.tanh(g)
    return sigmoid(o) * np.tanh(c), c


def gru_step(x, state, w, u, b, d):
    (ir, iz, i_n), (hr, hz, hn) = np.split(x @ w + b, 3), np.split(state[0] @ u + d, 3)
    n = np.tanh(i_n + sigmoid(ir + hr) * hn)
    z = sigmoid(iz + hz)
    return ((1 - z) * n + z * state[0],)


def tanh_step(x, state, w, u, b, d):
    return (np.tanh(x @ w + b + state[0] @ u + d),)


STEPS = {lstm: (lstm_step, 4, 2), gru: (gru_step, 3, 1), rnn_tanh: (tanh_step, 1, 1)}


def groups_of(flat, biased):
    width = 4 if biased else 2
    return [(*flat[k : k + width], *[None] * (4 - width)) for k in range(0, len(flat), width)]


def reference(step, states, x, groups, initial, lengths, directions):
    n, time, _ = x.shape
    ends = [time] * n if lengths is None else lengths
    finals = []
    for layer in range(0, len(groups), directions):
        hidden = groups[0][1].shape[0]
        y = np.zeros((n, time, directions * hidden))
        for way in range(directions):
            w, u, b, d = (0 if p is None else p for p in groups[layer + way])
            final = np.zeros((states, n, hidden))
            for k in range(n):
                state = tuple(s[layer + way, k] for s in initial) if initial else (np.zeros(hidden),) * states
                for t in reversed(range(ends[k])) if way else range(ends[k]):
                    state = step(x[k, t], state, w, u, b, d)
                    y[k, t, way * hidden : (way + 1) * hidden] = state[0]
                final[:, k] = state
            finals.append(final)
        x = y
    return (y, *[np.stack([final[s] for final in finals]) for s in range(states)])


def make(function, layers, directions, *, biased=True, start=False, lengths=None, name=""):
    """A case whose inputs are x, the weights one after the other, and the initial states."""
    step, gates, states = STEPS[function]
    n, time, c, hidden = 2, 3, 2, 2
    flat = []
    for layer in range(layers):
        for _ in range(directions):
            width = c if layer == 0 else directions * hidden
            flat += [
                f(width, gates * hidden),
                f(hidden, gates * hidden),
                *[f(gates * hidden) for _ in range(2 * biased)],
            ]
    initial = [f(layers * directions, n, hidden) for _ in range(states * start)]

    def run(x, *rest):
        given = tuple(rest[len(flat) :])
        kwargs = {"initial": given if states == 2 else given[0]} if start else {}
        y, final = function(
            x, groups_of(rest[: len(flat)], biased), lengths=lengths, bidirectional=directions == 2, **kwargs
        )
        return (y, *final) if states == 2 else (y, final)

    def expect(x, *rest):
        return reference(step, states, x, groups_of(rest[: len(flat)], biased), rest[len(flat) :], lengths, directions)

    run.__name__ = f"{function.__name__}_{name}"
    return Case(run, [f(n, time, c), *flat, *initial], expect, second=name in ("plain", "one"), bf16=6e-2)


CASES = [
    case
    for function in (lstm, gru, rnn_tanh)
    for case in (
        make(function, 1, 1, name="plain"),
        make(function, 1, 1, biased=False, lengths=np.array([3, 1]), name="masked"),
        make(function, 2, 2, start=True, lengths=np.array([2, 3]), name="deep"),
        make(function, 1, 2, name="both_ways"),
    )
]

_f, _ = draws(31)
BACKWARDS = {"lengths": np.array([3, 1]), "reverse": True}


def from_gates(gates, u, lengths, reverse=False):
    """What the input gives is given: an identity stands in the input's place."""
    group = (np.eye(gates.shape[2]), u, None, None)
    y, h, c = reference(lstm_step, 2, gates, [group] * (1 + reverse), (), lengths, 1 + reverse)
    return y[..., reverse * u.shape[0] :], h[int(reverse)], c[int(reverse)]


def gru_backwards(gates, u, lengths, reverse):
    y, h = reference(gru_step, 1, gates, [(np.eye(gates.shape[2]), u, None, None)] * 2, (), lengths, 2)
    return y[..., u.shape[0] :], h[1]


CASES += [
    Case(lstm_from_gates, [_f(2, 3, 8), _f(2, 8)], from_gates, kwargs={"lengths": np.array([3, 1])}, bf16=6e-2),
    Case(lstm_from_gates, [_f(2, 3, 8), _f(2, 8)], from_gates, kwargs=BACKWARDS, bf16=6e-2),
    Case(gru_from_gates, [_f(2, 3, 6), _f(2, 6)], gru_backwards, kwargs=BACKWARDS, bf16=6e-2),
]
