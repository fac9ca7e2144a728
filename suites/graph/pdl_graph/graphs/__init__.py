"""Learning what whole graphs are."""

from pdl_graph.graphs.task import GraphPrediction

__all__ = ["GraphPrediction"]
