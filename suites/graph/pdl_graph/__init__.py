"""pdl-graph: graph learning for pdl. Recipes name its parts as `pdl_graph.NodeClassification`, `pdl_graph.GCN`,
`pdl_graph.data.Planetoid`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pdl.lazy import names_of

if TYPE_CHECKING:
    from pdl_graph.api import *

__version__ = "0.1.0"

MOVED: dict[str, str] = {}
"""Import paths that moved: {"pdl_graph.OldName": "pdl_graph.NewName"}; recipes with the old ones keep working."""

INIT = {task: f"pdl_graph.{task}.init:write_recipe" for task in ("node", "link", "graphs", "knowledge")}
"""What `pdl init graph.TASK` writes recipes with."""

__getattr__, __dir__ = names_of("pdl_graph.api")
