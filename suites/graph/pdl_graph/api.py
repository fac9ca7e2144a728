"""The names of pdl_graph: `pdl_graph` exports all of them and imports this module on first use."""

from __future__ import annotations

from pdl_graph.analysis import page_rank
from pdl_graph.batch import GraphBatch, SparseFeatures
from pdl_graph.embedding import NodeEmbedding
from pdl_graph.graph import Graph, batch_graphs, sparse_features
from pdl_graph.graphs import GraphPrediction
from pdl_graph.hetero import HeteroGraph
from pdl_graph.infomax import GraphInfomax
from pdl_graph.knowledge import KnowledgeGraph
from pdl_graph.link import LinkPrediction
from pdl_graph.message_passing import Message, MessagePassing
from pdl_graph.models import *  # noqa: F403
from pdl_graph.models import __all__ as _models
from pdl_graph.neighbours import Neighbours
from pdl_graph.node import NodeClassification
from pdl_graph.subgraph import SubgraphLinks

__all__ = [
    "Graph",
    "GraphBatch",
    "GraphInfomax",
    "GraphPrediction",
    "HeteroGraph",
    "KnowledgeGraph",
    "LinkPrediction",
    "Message",
    "MessagePassing",
    "Neighbours",
    "NodeClassification",
    "NodeEmbedding",
    "SparseFeatures",
    "SubgraphLinks",
    "batch_graphs",
    "page_rank",
    "sparse_features",
    *_models,
]
