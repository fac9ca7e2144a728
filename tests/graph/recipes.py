"""Recipes for tests of a task itself: what they do not say stands for nothing."""

from __future__ import annotations

from typing import Any

from pdl.train import Recipe

PARTS: dict[str, Any] = {
    "task": {"_target_": "pdl_graph.NodeClassification"},
    "model": {"_target_": "pdl_graph.GCN"},
    "data": {"train": {"_target_": "pdl_graph.data.PowerLaw", "nodes": 20, "edges": 40}},
    "optim": {"_target_": "pdl.optim.Adam"},
}


def recipe_of(tree: dict[str, Any] | None = None) -> Recipe:
    """The checked recipe of a tree that names only some of its parts; no data set is opened."""
    tree = dict(tree or {})
    return Recipe({**PARTS, **tree, "data": {**PARTS["data"], **tree.get("data", {})}})


__all__ = ["recipe_of"]
