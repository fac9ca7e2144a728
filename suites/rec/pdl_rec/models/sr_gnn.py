"""SR-GNN: Wu et al., Session-based recommendation with graph neural networks, AAAI 2019 (arXiv 1811.00855)."""

from __future__ import annotations

import math

import pdl
from pdl import nn
from pdl.hints import Inherited
from pdl.tensor import Tensor
from pdl_rec.models.tied import TiedModel, Width, last


class SRGNN(TiedModel):
    """A session is a graph: its items are nodes, and each click leads from the item before it to its own.

    `steps` times every node takes in its neighbours along the edges in both directions, by gates (the paper's 1 to 5);
    then the session is the last item and an average over the clicks, weighed by attention to the last (6 and 7).

    The graph is never built. Each click carries the state of its item, and what the connection matrices of the paper
    say of items is said of clicks: click i takes in the mean over all clicks of the same item of the states that came
    next (or before). Clicks of one item so have one state, as the node would.
    """

    def __init__(self, width: Width = 100, *, steps: Width = 1, **options: Inherited) -> None:
        super().__init__(width, **options)
        self.graph = GatedGraph(width, steps)
        self.readout = Readout(width)
        for p in self.parameters():
            nn.init.uniform_(p, -1 / math.sqrt(width), 1 / math.sqrt(width))

    def encode(self, items: Tensor) -> Tensor:
        """int64 [N, T] -> [N, width]."""
        clicks = self.graph(self.look(items), *connections(items))
        return self.finish(self.readout(clicks, last(clicks, items), pdl.not_equal(items, 0)))


class GatedGraph(nn.Module):
    """States of nodes v [N, T, C], changed by their neighbours; the paper's equations 1 to 5.

    a = [A_out v H_out, A_in v H_in] + b
    z = sigmoid(W_z a + U_z v)    r = sigmoid(W_r a + U_r v)    v' = (1 - z) v + z tanh(W_o a + U_o (r v))
    """

    def __init__(self, width: int, steps: int) -> None:
        self.width, self.steps = width, steps
        self.outgoing, self.incoming = nn.Linear(width, width, bias=False), nn.Linear(width, width, bias=False)
        self.bias = nn.Parameter(pdl.zeros((2 * width,)))
        self.gates = nn.Linear(2 * width, 3 * width, bias=False)
        self.own = nn.Linear(width, 2 * width, bias=False)
        self.candidate = nn.Linear(width, width, bias=False)

    def forward(self, v: Tensor, after: Tensor, before: Tensor) -> Tensor:
        """v [N, T, C]; `after` and `before` as `connections` gives them -> [N, T, C]."""
        for _ in range(self.steps):
            around = (self.outgoing(pdl.matmul(after, v)), self.incoming(pdl.matmul(before, v)))
            z, r, new = pdl.split(self.gates(pdl.concat(around, axis=-1) + self.bias), self.width, axis=-1)
            own_z, own_r = pdl.split(self.own(v), self.width, axis=-1)
            new = pdl.tanh(new + self.candidate(pdl.sigmoid(r + own_r) * v))
            v = v + pdl.sigmoid(z + own_z) * (new - v)
        return v


class Readout(nn.Module):
    """s = W_3 [v_n, sum_i alpha_i v_i],  alpha_i = q^T sigmoid(W_1 v_n + W_2 v_i + c): equations 6 and 7. The weights
    of attention are no softmax, as in the paper."""

    def __init__(self, width: int) -> None:
        self.recent, self.each = nn.Linear(width, width), nn.Linear(width, width, bias=False)
        self.weigh = nn.Linear(width, 1, bias=False)
        self.merge = nn.Linear(2 * width, width, bias=False)

    def forward(self, clicks: Tensor, newest: Tensor, there: Tensor) -> Tensor:
        """clicks [N, T, C], newest [N, C], there bool [N, T] -> [N, C]."""
        mixed = pdl.sigmoid(pdl.expand_dims(self.recent(newest), axis=1) + self.each(clicks))
        alpha = self.weigh(mixed) * pdl.expand_dims(pdl.astype(there, clicks.dtype), axis=2)
        return self.merge(pdl.concat((newest, pdl.sum(alpha * clicks, axis=1)), axis=-1))  # type: ignore[no-any-return]


def connections(items: Tensor) -> tuple[Tensor, Tensor]:
    """(after, before) float32 [N, T, T] of sessions int64 [N, T].

    after[i, j]: click j follows a click of the item of click i, as a share of all that follow one; before: likewise
    of those that come before one. An edge taken twice counts twice; rows without a neighbour are 0.
    """
    there = pdl.not_equal(items, 0)
    alike = pdl.logical_and(
        pdl.equal(pdl.expand_dims(items, axis=2), pdl.expand_dims(items, axis=1)), pdl.expand_dims(there, axis=1)
    )
    same = pdl.astype(alike, pdl.float32)
    mask = pdl.astype(pdl.expand_dims(there, axis=1), pdl.float32)
    after = pdl.pad(same[:, :, :-1], ((0, 0), (0, 0), (1, 0))) * mask
    before = pdl.pad(same[:, :, 1:], ((0, 0), (0, 0), (0, 1))) * mask
    return _shares(after), _shares(before)


def _shares(counts: Tensor) -> Tensor:
    return counts / pdl.maximum(pdl.sum(counts, axis=-1, keepdims=True), 1.0)


TASK = "next item"
VARIANTS = {"srgnn": {"_target_": "pdl_rec.SRGNN"}}
