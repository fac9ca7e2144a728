"""NARM: Li et al., Neural attentive session-based recommendation, CIKM 2017 (arXiv 1711.04725)."""

from __future__ import annotations

import pdl
from pdl import nn
from pdl.hints import Inherited
from pdl.tensor import Tensor
from pdl_rec.models.tied import Rate, TiedModel, Width, last, lengths


class NARM(TiedModel):
    """A GRU reads the session; its last state (sequential behaviour) and an average of all states,
    weighted by attention to the last (main purpose), make the session's vector; scores are
    bilinear in it and the items.

        h_1 ... h_t = GRU(items)    alpha_tj = v^T sigmoid(A_1 h_t + A_2 h_j)    c = [h_t, sum_j alpha_tj h_j]
        score of item i = emb_i^T B c

    dropout   of looked-up items (0.25 in the paper); `dropout_session` of c (0.5 there)
    hidden    width of the GRU; by default that of the items
    """

    def __init__(
        self,
        width: Width = 100,
        *,
        hidden: Width | None = None,
        dropout: Rate = 0.25,
        dropout_session: Rate = 0.5,
        **options: Inherited,
    ) -> None:
        super().__init__(width, dropout=dropout, **options)
        hidden = hidden or width
        nn.init.xavier_normal_(self.items.weight)
        self.gru = nn.GRU(width, hidden)
        self.recent, self.each = nn.Linear(hidden, hidden, bias=False), nn.Linear(hidden, hidden, bias=False)
        self.weigh = nn.Linear(hidden, 1, bias=False)
        self.drop_session = nn.Dropout(dropout_session)
        self.bilinear = nn.Linear(2 * hidden, width, bias=False)

    def encode(self, items: Tensor) -> Tensor:
        """int64 [N, T] -> [N, width]."""
        states, _ = self.gru(self.look(items), lengths=lengths(items))
        newest = last(states, items)
        alpha = self._attention(pdl.expand_dims(newest, axis=1), states)
        return self._session(newest, pdl.sum(alpha * states, axis=1))

    def encode_steps(self, items: Tensor) -> Tensor:
        """int64 [N, T] -> [N, T, width]."""
        states, _ = self.gru(self.look(items), lengths=lengths(items))
        pairs = self._attention(pdl.expand_dims(states, axis=2), pdl.expand_dims(states, axis=1))
        alpha = pdl.tril(pdl.squeeze(pairs, axis=3))
        return self._session(states, pdl.matmul(alpha, states))

    def _attention(self, newest: Tensor, states: Tensor) -> Tensor:
        """How much each state counts: [..., H] and [..., H] -> [..., 1]. States behind the end are 0 and so add
        nothing, whatever their weight."""
        return self.weigh(pdl.sigmoid(self.recent(newest) + self.each(states)))  # type: ignore[no-any-return]

    def _session(self, newest: Tensor, meant: Tensor) -> Tensor:
        both = self.drop_session(pdl.concat((newest, meant), axis=-1))
        return self.finish(self.bilinear(both))


TASK = "next item"
VARIANTS = {"narm": {"_target_": "pdl_rec.NARM"}}
