"""Which nodes are joined, by the enclosing subgraphs of pairs."""

from pdl_graph.subgraph.task import SubgraphLinks
