"""Recurrent layers over [N, L, C], in several layers and both directions. Equations and gate order are PyTorch's, see
`pdl.ops.rnn`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Annotated, Any, ClassVar

from pdl import ops
from pdl.hints import Range
from pdl.nn import init
from pdl.nn.module import Module, Parameter
from pdl.tensor import Tensor

Width = Annotated[int, Range(1)]


class _Recurrent(Module):
    """What the three kinds share: weights per layer and direction, and dropout between layers."""

    gates: ClassVar[int] = 1
    shown = ("input_size", "hidden_size", "num_layers", "bias", "dropout", "bidirectional")

    def __init__(
        self,
        input_size: Width,
        hidden_size: Width,
        *,
        num_layers: Width = 1,
        bias: bool = True,
        dropout: Annotated[float, Range(0, below=1)] = 0.0,
        bidirectional: bool = False,
    ) -> None:
        self.input_size, self.hidden_size, self.num_layers = input_size, hidden_size, num_layers
        self.bias, self.dropout, self.bidirectional = bias, dropout, bidirectional
        width = self.gates * hidden_size
        for layer in range(num_layers):
            inputs = input_size if layer == 0 else hidden_size * self.directions
            for suffix in self._suffixes(layer):
                setattr(self, f"weight_ih_{suffix}", Parameter(ops.zeros((inputs, width))))
                setattr(self, f"weight_hh_{suffix}", Parameter(ops.zeros((hidden_size, width))))
                for name in ("bias_ih", "bias_hh"):
                    setattr(self, f"{name}_{suffix}", Parameter(ops.zeros((width,))) if bias else None)
        self.reset_parameters()

    @property
    def directions(self) -> int:
        """2 where the layer reads both ways, else 1."""
        return 2 if self.bidirectional else 1

    def reset_parameters(self) -> None:
        """Draw new initial values: U(-a, a), a = 1 / sqrt(hidden_size), as PyTorch's."""
        bound = 1.0 / math.sqrt(self.hidden_size)
        for p in self.parameters():
            init.uniform_(p, -bound, bound)

    def _suffixes(self, layer: int) -> list[str]:
        return [f"l{layer}", f"l{layer}_reverse"][: self.directions]

    def _run(
        self, op: Callable[..., Any], x: Tensor, states: list[Tensor | None], lengths: Any
    ) -> tuple[Tensor, list[Tensor]]:
        """Layer by layer; `states` (initial ones, [layers D, N, H] or None) in, final ones out."""
        finals: list[list[Tensor]] = [[] for _ in states]
        for layer in range(self.num_layers):
            if layer and self.dropout and self.training:
                x = ops.dropout(x, p=self.dropout)
            weights = [
                [getattr(self, f"{name}_{suffix}") for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")]
                for suffix in self._suffixes(layer)
            ]
            at = slice(layer * self.directions, (layer + 1) * self.directions)
            given = [None if s is None else s[at] for s in states]
            initial = tuple(given) if len(given) > 1 else given[0]
            x, final = op(x, weights, initial=initial, lengths=lengths, bidirectional=self.bidirectional)
            for found, s in zip(finals, final if isinstance(final, tuple) else (final,), strict=True):
                found.append(s)
        return x, [found[0] if len(found) == 1 else ops.concat(found, axis=0) for found in finals]


class RNN(_Recurrent):
    """Elman's net (1990): h' = tanh(x_t W_ih + b_ih + h W_hh + b_hh)."""

    def forward(self, x: Tensor, h: Tensor | None = None, *, lengths: Any = None) -> tuple[Tensor, Tensor]:
        """x [N, L, input_size], h [layers D, N, hidden_size] -> y [N, L, D hidden_size], last h. `lengths` [N]: real
        steps of each sample.
        """
        y, (h,) = self._run(ops.rnn_tanh, x, [h], lengths)
        return y, h


class GRU(_Recurrent):
    """Gated recurrent unit: Cho et al., arXiv 1406.1078, in cuDNN's and PyTorch's form."""

    gates = 3

    def forward(self, x: Tensor, h: Tensor | None = None, *, lengths: Any = None) -> tuple[Tensor, Tensor]:
        """x [N, L, input_size], h [layers D, N, hidden_size] -> y [N, L, D hidden_size], last h. `lengths` [N]: real
        steps of each sample.
        """
        y, (h,) = self._run(ops.gru, x, [h], lengths)
        return y, h


class LSTM(_Recurrent):
    """Long short-term memory: Hochreiter & Schmidhuber, Neural Computation 9, 1997, with forget gates."""

    gates = 4

    def forward(
        self, x: Tensor, state: tuple[Tensor | None, Tensor | None] = (None, None), *, lengths: Any = None
    ) -> tuple[Tensor, tuple[Tensor, Tensor]]:
        """x [N, L, input_size], (h, c) each [layers D, N, hidden_size] -> y [N, L, D hidden_size], last (h, c)."""
        y, (h, c) = self._run(ops.lstm, x, list(state), lengths)
        return y, (h, c)
