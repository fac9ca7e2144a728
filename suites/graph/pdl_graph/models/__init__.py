"""The models: one file per family."""

from pdl_graph.models.base import GraphModel

__all__ = ["GraphModel"]
