"""Look the pairs, or the nodes, of an embedding over before training."""

from __future__ import annotations

from typing import Any

from pdl.data import Fault
from pdl.train import Recipe
from pdl_graph.data.edges import EdgeSplit
from pdl_graph.link import check as link
from pdl_graph.node import check as node


def check_recipe(recipe: Recipe, progress: Any = None) -> list[Fault]:
    """Faults of a recipe's pairs or nodes."""
    pairs = recipe.data.source is not None and issubclass(recipe.data.source.cls, EdgeSplit)
    return (link if pairs else node).check_recipe(recipe, progress)
