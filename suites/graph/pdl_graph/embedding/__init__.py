"""Vectors of nodes by walks and edges: the task, its batches, how it is measured, its use."""

from pdl_graph.embedding.task import NodeEmbedding
