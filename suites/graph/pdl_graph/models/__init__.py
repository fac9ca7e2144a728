"""The models: one file per family."""

from pdl_graph.models.appnp import APPNP, GPRGNN
from pdl_graph.models.base import GraphModel
from pdl_graph.models.gat import GAT, GATConv, GATv2, GATv2Conv
from pdl_graph.models.gcn import GCN, GCNConv
from pdl_graph.models.gcnii import GCNII, GCNIIConv
from pdl_graph.models.mlp import MLP, FeatureLinear
from pdl_graph.models.sgc import SGC, SSGC

__all__ = [
    "APPNP", "GAT", "GCN", "GCNII", "GPRGNN", "MLP", "SGC", "SSGC", "FeatureLinear", "GATConv", "GATv2", "GATv2Conv",
    "GCNConv", "GCNIIConv", "GraphModel",
]  # fmt: skip
