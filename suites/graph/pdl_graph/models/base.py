"""What graph nets have in common."""

from __future__ import annotations

from typing import ClassVar

from pdl.nn import Module
from pdl.tensor import Tensor
from pdl_graph.batch import GraphBatch


class GraphModel(Module):
    """Base of the nets that read a graph.

    self_loops   whether the graph it reads must have an edge from every node to itself: the task adds them
    """

    self_loops: ClassVar[bool] = False
    num_features: int
    num_classes: int

    def embed(self, graph: GraphBatch) -> Tensor:
        """Vectors of the nodes [N, C], before the last layer."""
        raise NotImplementedError(f"{type(self).__name__} must define embed")

    def forward(self, graph: GraphBatch) -> Tensor:
        """Scores of the nodes [N, num_classes]."""
        raise NotImplementedError(f"{type(self).__name__} must define forward")
