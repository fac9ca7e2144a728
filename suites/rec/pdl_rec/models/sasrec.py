"""SASRec: Kang & McAuley, Self-attentive sequential recommendation, ICDM 2018 (arXiv 1808.09781)."""

from __future__ import annotations

import math

from pdl import nn
from pdl.errors import ConfigError
from pdl.hints import Inherited
from pdl.tensor import Tensor
from pdl_rec.models.tied import Rate, TiedModel, Width, last, places


class SASRec(TiedModel):
    """Self-attention over the session, every click looking at itself and those before it.

        x = sqrt(width) items + positions;    `blocks` times: x + drop(attention(norm(x))), x + drop(ffn(norm(x)));
        norm.    ffn(x) = ReLU(x W_1 + b_1) W_2 + b_2, as wide inside as outside

    max_length   clicks that there are positions for, counted from the session's begin; more are a ShapeError. Give the
                 task the same, so that of longer sessions the newest are read
    """

    def __init__(
        self,
        width: Width = 50,
        *,
        blocks: Width = 2,
        heads: Width = 1,
        max_length: Width = 50,
        dropout: Rate = 0.2,
        **options: Inherited,
    ) -> None:
        if width % heads:
            raise ConfigError(f"SASRec: heads={heads} must divide width={width}")
        super().__init__(width, dropout=dropout, **options)
        nn.init.normal_(self.items.weight, std=1 / math.sqrt(width))
        self.max_length = max_length
        self.positions = nn.Embedding(max_length, width)
        nn.init.normal_(self.positions.weight, std=1 / math.sqrt(width))
        self.body = nn.TransformerEncoder(
            width, heads, blocks, dim_feedforward=width, dropout=dropout, activation="relu", norm_first=True
        )

    def encode_steps(self, items: Tensor) -> Tensor:
        """int64 [N, T] -> [N, T, width]."""
        x = self.drop(self.vectors(items) * math.sqrt(self.width) + self.positions(places(items) - 1))
        return self.finish(self.body(x, is_causal=True))

    def encode(self, items: Tensor) -> Tensor:
        """int64 [N, T] -> [N, width]."""
        return last(self.encode_steps(items), items)


TASK = "next item"
VARIANTS = {"sasrec": {"_target_": "pdl_rec.SASRec"}}
