"""The models: one file per family."""

from pdl_graph.models.base import GraphModel
from pdl_graph.models.gcn import GCN, GCNConv
from pdl_graph.models.mlp import MLP, FeatureLinear

__all__ = ["GCN", "MLP", "FeatureLinear", "GCNConv", "GraphModel"]
