"""Vectors of nodes that are learned without labels."""

from pdl_graph.infomax.task import GraphInfomax
