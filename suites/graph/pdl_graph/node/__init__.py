"""Classes of nodes."""

from pdl_graph.node.infomax import GraphInfomax
from pdl_graph.node.task import NodeClassification

__all__ = ["GraphInfomax", "NodeClassification"]
