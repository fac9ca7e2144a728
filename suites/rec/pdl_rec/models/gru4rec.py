"""GRU4Rec: Hidasi, Karatzoglou, Baltrunas, Tikk, Session-based recommendations with recurrent neural networks (arXiv
1511.06939), with what Hidasi & Karatzoglou, arXiv 1706.03847, added.

A GRU reads a session item by item; the products of its state with the items' vectors are their scores. Hidasi &
Czapp, arXiv 2307.14956, list what other implementations get wrong; the tests of this file hold each of these points.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Annotated, Literal

import pdl
from pdl import nn
from pdl.errors import ConfigError, UsageError
from pdl.hints import Range
from pdl.nn import init
from pdl.ops.base import assign
from pdl.tensor import Tensor
from pdl_rec.models.base import SequenceModel

Width = Annotated[int, Range(1)]
Rate = Annotated[float, Range(0, below=1)]


class GRU4Rec(SequenceModel):
    """Scores of the next item: h_t = GRU(h_t-1, x_t), x_t the vector of the item read, scores = h_t E^T + b.

    layers            width of each GRU layer
    embedding         of the items read: "shared" with the output table E ("constrained embedding"), "separate", or
                      "none": one-hot input, which is a table of 3 H numbers an item that go to the gates as they are
    embedding_size    width of the vectors of the items; by default that of the last layer. For "shared" and another
                      width a linear layer without bias takes the state there
    bias              whether every item has a number b that is added to its score
    dropout_embed     of the vectors of the items read, in training
    dropout_hidden    of every layer's output, on its way up: the state that a layer itself carries on is whole
    sparse            whether tables get gradients of rows: for losses over a sample of items
    slots             sessions that are read side by side in session-parallel training. Their states are buffers, which
                      `advance` moves on and checkpoints keep; the task fills it in

    Matrices are drawn from U(-a, a), a^2 = 6 / (rows + columns), each gate's part on its own; biases begin at 0.
    """

    def __init__(
        self,
        layers: Sequence[Width] = (100,),
        *,
        embedding: Literal["shared", "separate", "none"] = "shared",
        embedding_size: Width | None = None,
        bias: bool = True,
        dropout_embed: Rate = 0.0,
        dropout_hidden: Rate = 0.0,
        sparse: bool = False,
        slots: Width | None = None,
        num_items: Width | None = None,
    ) -> None:
        if num_items is None:
            raise ConfigError("GRU4Rec needs num_items, which the task takes from the data")
        if not layers:
            raise ConfigError("layers must name the width of one layer at least")
        self.num_items, self.widths, self.embedding, self.sparse = num_items, tuple(layers), embedding, sparse
        self.slots, rows, last = slots, num_items + 1, layers[-1]
        width = embedding_size or last
        onehot = embedding == "none"
        self.outputs = _table(rows, width if embedding == "shared" else last, sparse=sparse)
        inputs = (layers[0], 3) if onehot else (width, 1)
        self.inputs = None if embedding == "shared" else _table(rows, *inputs, sparse=sparse)
        self.bias = (nn.Table if sparse else nn.Parameter)(pdl.zeros((rows, 1))) if bias else None
        self.cells = nn.ModuleList(
            [GRULayer(None if embedding == "none" else width, layers[0])]
            + [GRULayer(below, above) for below, above in itertools.pairwise(layers)]
        )
        self.project = nn.Linear(last, width, bias=False) if embedding == "shared" and width != last else None
        if self.project is not None:
            init.xavier_uniform_(self.project.weight)
        self.drop_embed, self.drop_hidden = nn.Dropout(dropout_embed), nn.Dropout(dropout_hidden)
        for number, size in enumerate(layers if slots else ()):
            self.register_buffer(f"state{number}", pdl.zeros((slots or 0, size)), exact=True, per_sample=True)

    # -- reading -------------------------------------------------------------------------------------------------------
    def look(self, items: Tensor) -> Tensor:
        """What the first layer reads for items int64 [...]: vectors, or parts of its gates; 0 for no item."""
        table = self.outputs if self.inputs is None else self.inputs
        return self.drop_embed(pdl.embedding(table, items, padding_idx=0, sparse=self.sparse))  # type: ignore[no-any-return]

    def advance(self, items: Tensor, reset: Tensor, places: Tensor | None = None) -> Tensor:
        """Read one item in every slot, or in those of `places`: items int64 [n], after forgetting the session before
        where `reset`, bool [n] -> [n, C]. The new states replace the old ones, and those of other slots are 0 then;
        gradients end at the old (one step of truncated backpropagation, as in the papers)."""
        if places is None and items.shape != (self.slots,):
            raise UsageError(f"GRU4Rec has states for slots={self.slots} sessions, the batch has {items.shape}")
        x, begins = pdl.expand_dims(self.look(items), axis=1), pdl.expand_dims(reset, axis=1)
        for number, cell in enumerate(self.cells):
            held: Tensor = getattr(self, f"state{number}")
            before = held if places is None else pdl.take(held, places, axis=0)
            y, state = cell(x, pdl.where(begins, 0.0, before))
            after = state.detach()
            assign(held, after if places is None else pdl.segment_sum(after, places, num_segments=held.shape[0]))
            x = self.drop_hidden(y)
        return self.finish(pdl.squeeze(x, axis=1))

    def encode_steps(self, items: Tensor) -> Tensor:
        """int64 [N, T] -> [N, T, C]."""
        x = self.look(items)
        for cell in self.cells:
            x = self.drop_hidden(cell(x)[0])
        return self.finish(x)

    def encode(self, items: Tensor) -> Tensor:
        """int64 [N, T] -> [N, C]."""
        x, lengths = self.look(items), _lengths(items)
        for cell in self.cells:
            y, state = cell(x, lengths=lengths)
            x = self.drop_hidden(y)
        return self.finish(self.drop_hidden(state))

    def finish(self, state: Tensor) -> Tensor:
        """From the state of the last layer [..., H] to the vector that is multiplied with the items' [..., C]."""
        return state if self.project is None else self.project(state)  # type: ignore[no-any-return]

    # -- scoring -------------------------------------------------------------------------------------------------------
    def item_table(self) -> tuple[Tensor, Tensor | None]:
        """E [num_items + 1, C] and b [num_items + 1]."""
        return self.outputs, None if self.bias is None else pdl.reshape(self.bias, (-1,))

    def item_rows(self, items: Tensor) -> tuple[Tensor, Tensor | None]:
        """Rows of both for items int64 [J]."""
        rows = pdl.embedding(self.outputs, items, sparse=self.sparse)
        if self.bias is None:
            return rows, None
        return rows, pdl.reshape(pdl.embedding(self.bias, items, sparse=self.sparse), (-1,))


class GRULayer(nn.Module):
    """One GRU layer (`pdl.gru`): x [N, L, inputs], state [N, H] -> y [N, L, H], the last state.

    Without `inputs` x [N, L, 3 H] holds the products with the input's matrix already.
    """

    shown = ("inputs", "hidden")

    def __init__(self, inputs: int | None, hidden: int) -> None:
        self.inputs, self.hidden = inputs, hidden
        self.weight_ih = None if inputs is None else nn.Parameter(pdl.zeros((inputs, 3 * hidden)))
        self.weight_hh = nn.Parameter(pdl.zeros((hidden, 3 * hidden)))
        self.bias_ih, self.bias_hh = nn.Parameter(pdl.zeros((3 * hidden,))), nn.Parameter(pdl.zeros((3 * hidden,)))
        for weight in (self.weight_ih, self.weight_hh):
            if weight is not None:
                bound = math.sqrt(6.0 / (weight.shape[0] + hidden))
                init.uniform_(weight, -bound, bound)

    def forward(
        self, x: Tensor, state: Tensor | None = None, *, lengths: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        gates = x + self.bias_ih if self.weight_ih is None else pdl.linear(x, self.weight_ih, self.bias_ih)
        return pdl.gru_from_gates(gates, self.weight_hh, self.bias_hh, initial=state, lengths=lengths)


def _table(rows: int, width: int, parts: int = 1, *, sparse: bool) -> nn.Parameter:
    """Vectors of items, each of `parts` matrices [rows, width] side by side; row 0, which is none, holds zeros."""
    bound = math.sqrt(6.0 / (rows + width))
    zeros = pdl.zeros((rows, parts * width))
    made = init.uniform_(nn.Table(zeros, padding=0) if sparse else nn.Parameter(zeros), -bound, bound)
    made.data[0] = 0
    return made


def _lengths(items: Tensor) -> Tensor:
    """Up to and with the last item: int64 [N, T] -> int64 [N]."""
    steps = pdl.cumsum(items * 0 + 1, axis=1)
    return pdl.max(steps * pdl.astype(pdl.not_equal(items, 0), pdl.int64), axis=1)


TASK = "next item"
VARIANTS = {"gru4rec": {"_target_": "pdl_rec.GRU4Rec"}}
