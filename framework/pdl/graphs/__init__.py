"""Structure of graphs: rows from edges, neighbours drawn, random walks, pairs that are no edges, subgraphs, page ranks.

NumPy in, NumPy out. A graph is its lists of neighbours: `indptr` int64 [N + 1] and `indices` int32 [E], those of node v
being indices[indptr[v]:indptr[v + 1]]; `pdl.ops.CSR` and `pdl_graph.Graph` have them by these names. Which direction an
edge has is the caller's business: walks and samples go from v to the ids on its list.

    near = Neighbours(graph.indptr, graph.indices, seed=0)
    outer, inner = near.blocks(nodes, (10, 25), epoch=0, step=17)   # two hops, the outermost block first
    Neighbours(...).walks(starts, 80, epoch=0)                      # int32 [W, 81]

What is drawn is a function of (seed, epoch, step) and of the node, walk or row that it is drawn for: any number of
threads gives the same, and a resumed run goes on as it would have.
"""

from __future__ import annotations

from pdl.graphs.neighbours import Block, Neighbours, Subgraphs
from pdl.graphs.ranks import page_rank
from pdl.graphs.rows import coalesce, components, from_edges, group, rows_of, transpose

__all__ = [
    "Block", "Neighbours", "Subgraphs", "coalesce", "components", "from_edges", "group", "page_rank", "rows_of",
    "transpose",
]  # fmt: skip
