"""Nets whose layers may each be given a graph of their own: what training on sampled neighbours asks for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pdl.tensor import Tensor
from pdl_graph.batch import GraphBatch
from pdl_graph.models.base import GraphModel


class LayeredModel(GraphModel):
    """A net that is `num_layers` layers, one after another, each of which reads a graph and vectors of its nodes.

    Where a graph is asked for, `forward` and `embed` take one `GraphBatch`, or one for each layer, those of sampled
    neighbourhoods: the nodes that receive in one are the nodes that send in the next, and the features of those that
    send in the first are its x.
    """

    num_layers: int

    def layer(self, index: int, graph: GraphBatch, x: Any) -> Tensor:
        """Layer `index` with all that belongs to it: vectors of the nodes that send -> of those that receive."""
        raise NotImplementedError(f"{type(self).__name__} must define layer")

    def embed(self, graph: GraphBatch | Sequence[GraphBatch]) -> Tensor:
        """What the last layer reads: vectors of the nodes that send in it."""
        return self._run(graph, self.num_layers - 1)  # type: ignore[no-any-return]

    def forward(self, graph: GraphBatch | Sequence[GraphBatch]) -> Tensor:
        """Scores of the nodes that receive in the last layer, [N, num_classes]."""
        return self._run(graph, self.num_layers)  # type: ignore[no-any-return]

    def _run(self, graph: GraphBatch | Sequence[GraphBatch], num_layers: int) -> Any:
        graphs = [graph] * self.num_layers if isinstance(graph, GraphBatch) else graph
        x = graphs[0].x
        for index in range(num_layers):
            x = self.layer(index, graphs[index], x)
        return x
