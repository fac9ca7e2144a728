"""All inference passes on whole nets of the framework's layers: the values of eager mode, and few nodes."""

from __future__ import annotations

import numpy as np
import pytest

import pdl
from pdl import nn

from .rewriting import Net, check_net


class Transformer(nn.Module):
    """Tokens, places, encoder layers, a linear layer on the first token."""

    def __init__(self) -> None:
        self.tokens, self.places = nn.Embedding(50, 32), nn.Parameter(pdl.zeros((12, 32)))
        self.norm, self.drop = nn.LayerNorm(32), nn.Dropout(0.1)
        self.encoder = nn.TransformerEncoder(32, 4, 2, dim_feedforward=64, dropout=0.1, activation="gelu")
        self.head = nn.Linear(32, 5)

    def forward(self, tokens: pdl.Tensor) -> pdl.Tensor:
        x = self.drop(self.norm(self.tokens(tokens) + self.places))
        return self.head(self.encoder(x)[:, 0])  # type: ignore[no-any-return]


class Session(nn.Module):
    """The next item of a session."""

    def __init__(self) -> None:
        self.items, self.gru, self.head = nn.Embedding(50, 16), nn.GRU(16, 16), nn.Linear(16, 50)

    def forward(self, items: pdl.Tensor) -> pdl.Tensor:
        y, _ = self.gru(self.items(items))
        return self.head(y[:, -1])  # type: ignore[no-any-return]


NETS = {
    "transformer": Net(Transformer, (12,), 24, ("Gelu", "Dropout"), np.int64),
    "gru": Net(Session, (9,), 5, (), np.int64),
}


@pytest.mark.parametrize("name", NETS)
def test_values_of_eager_mode(name: str) -> None:
    check_net(NETS[name])
