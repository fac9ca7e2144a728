"""Learning what whole graphs are."""

from pdl_graph.graphs.task import GraphPrediction
