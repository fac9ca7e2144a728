"""The names of pdl_graph: `pdl_graph` exports all that this module imports, on first use."""

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
from pdl_graph.models import *
from pdl_graph.neighbours import Neighbours
from pdl_graph.node import NodeClassification
from pdl_graph.subgraph import SubgraphLinks
