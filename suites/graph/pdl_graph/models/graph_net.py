"""Nets of whole graphs: any net of nodes, a readout, and layers on what it gives."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated

import pdl
from pdl import Tensor
from pdl.errors import ConfigError
from pdl.hints import Range
from pdl.nn import Linear, Module, ModuleList
from pdl_graph.batch import GraphBatch
from pdl_graph.models.base import GraphModel
from pdl_graph.models.mlp import Rate, Size
from pdl_graph.models.propagation import required
from pdl_graph.pooling import Pools, Readout, SAGPool


class GraphNet(Module):
    """y = head(readout(encoder(graph))), [num_graphs, num_classes].

    encoder      a net of nodes: its output [N, encoder.num_classes] are the vectors that are read out
    num_classes  outputs for each graph
    readout      sum, mean, max or attention (`pdl_graph.pooling`), or several, side by side
    sag          before the readout keep this share of the nodes, those that matter (`SAGPool`; the paper's global form)
    hidden       widths of layers with relu between readout and output
    dropout      before each of these and before the output
    """

    def __init__(
        self,
        encoder: GraphModel,
        num_classes: Size | None = None,
        *,
        readout: Readout | Sequence[Readout] = "sum",
        sag: Annotated[float, Range(above=0, high=1)] | None = None,
        hidden: Sequence[Size] = (),
        dropout: Rate = 0.5,
    ) -> None:
        if not isinstance(encoder, GraphModel):
            raise ConfigError(
                f"GraphNet: the encoder {type(encoder).__name__} is no net of nodes, such as pdl_graph.GIN"
            )
        self.encoder, self.num_classes, self.dropout = encoder, required(self, num_classes=num_classes), dropout
        self.self_loops = encoder.self_loops or sag is not None
        self.sag = None if sag is None else SAGPool(encoder.num_classes, ratio=sag)
        self.readout = Pools(readout, encoder.num_classes)
        sizes = [self.readout.out_features, *hidden, self.num_classes]
        self.head = ModuleList(Linear(a, b) for a, b in pairwise(sizes))

    def embed(self, graph: GraphBatch) -> Tensor:
        """Vectors of the graphs, before the last layer."""
        x = self.encoder(graph)
        if self.sag is not None:
            graph, x = self.sag(graph, x)
        y = self._dropped(self.readout(graph, x))
        for layer in list(self.head)[:-1]:
            y = self._dropped(pdl.relu(layer(y)))
        return y

    def _dropped(self, x: Tensor) -> Tensor:
        return pdl.dropout(x, p=self.dropout, training=self.training) if self.dropout else x

    def forward(self, graph: GraphBatch) -> Tensor:
        """[num_graphs, num_classes]."""
        return self.head[-1](self.embed(graph))  # type: ignore[no-any-return]


_GIN = {"_target_": "pdl_graph.GraphNet", "encoder": {"_target_": "pdl_graph.GIN"}}
_GINE = {"_target_": "pdl_graph.GraphNet", "encoder": {"_target_": "pdl_graph.GINE"}, "readout": "mean"}

TASK = "graph prediction"
VARIANTS = {"gin_graph": _GIN, "gine_graph": _GINE}
