"""Completion of knowledge graphs."""

from pdl_graph.knowledge.task import KnowledgeGraph
