"""Classes of nodes."""

from pdl_graph.node.task import NodeClassification
