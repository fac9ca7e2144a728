"""pdl-graph: graph learning for pdl. Recipes name its parts as `pdl_graph.NodeClassification`, `pdl_graph.GCN`,
`pdl_graph.data.Planetoid`."""

from __future__ import annotations

from pdl_graph.batch import GraphBatch, SparseFeatures
from pdl_graph.embedding import NodeEmbedding
from pdl_graph.graph import Graph, batch_graphs, sparse_features
from pdl_graph.graphs import GraphPrediction
from pdl_graph.hetero import HeteroGraph
from pdl_graph.knowledge import KnowledgeGraph
from pdl_graph.link.around import SubgraphLinks
from pdl_graph.link.task import LinkPrediction
from pdl_graph.message_passing import Message, MessagePassing
from pdl_graph.models import *  # noqa: F403
from pdl_graph.models import __all__ as _models
from pdl_graph.node import GraphInfomax, NodeClassification

__version__ = "0.1.0"

MOVED: dict[str, str] = {}
"""Import paths that moved: {"pdl_graph.OldName": "pdl_graph.NewName"}; recipes with the old ones keep working."""

INIT = {"nodes": "pdl_graph.node.init:write_recipe", "links": "pdl_graph.link.init:write_recipe"}
"""What `pdl init graph.TASK` writes recipes with."""

__all__ = [
    "Graph",
    "GraphBatch",
    "GraphInfomax",
    "GraphPrediction",
    "HeteroGraph",
    "KnowledgeGraph",
    "LinkPrediction",
    "MOVED",
    "Message",
    "MessagePassing",
    "NodeClassification",
    "NodeEmbedding",
    "SparseFeatures",
    "SubgraphLinks",
    "batch_graphs",
    "sparse_features",
    *_models,
]
