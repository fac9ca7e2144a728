"""Which nodes are joined."""

from pdl_graph.link.task import LinkPrediction
