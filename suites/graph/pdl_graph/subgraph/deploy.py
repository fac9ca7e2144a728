"""What of a net of subgraphs goes into a bundle, which holds the graph.

The step cuts the enclosing subgraph of a pair (`pdl_graph.steps.subgraphs`), in runs as in bundles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

import pdl
from pdl.dims import Dim
from pdl.dtype import int32, int64
from pdl.export.deployment import Deployment
from pdl.nn import Module
from pdl.ops import CSR
from pdl.ops.base import Spec
from pdl.report import Card
from pdl.tensor import Tensor
from pdl_graph.batch import GraphBatch
from pdl_graph.graph import Graph
from pdl_graph.link.deploy import LABELS, MEASURED, OUTPUT, POST, LinkDeployer
from pdl_graph.link.loader import split_of
from pdl_graph.node_table import NODES, example_pairs
from pdl_graph.subgraph.loader import neighbours_of

if TYPE_CHECKING:
    from pdl_graph.subgraph.task import SubgraphLinks

GRAPH, PARTS = "graph", ("size", "node", "edge")


class BySubgraphs(Module):
    """A net of subgraphs with its inputs by position, as `pdl_graph.steps.subgraphs` makes them: size int64 [n], node
    int64 [N, 3], edge int64 [E, 3] -> logits [n]."""

    def __init__(self, model: Module) -> None:
        self.model = model

    def forward(self, size: Tensor, node: Tensor, edge: Tensor) -> Tensor:
        start = pdl.cumsum(size) - size
        row, column = (pdl.astype(edge[:, i] + pdl.take(start, edge[:, 0]), int32) for i in (1, 2))
        indptr = pdl.concat([size[:1] * 0, pdl.cumsum(node[:, 2])])
        pattern = CSR(indptr, column, row, indptr, column, row)  # it is not differentiated
        graph = GraphBatch(pattern, node_type=node[:, 1], graph=node[:, 0], num_graphs=size.shape[0])
        return self.model(graph)  # type: ignore[no-any-return]


def bundle_inputs(graph: GraphBatch) -> list[Tensor]:
    """A batch of training as the inputs of a bundle."""
    owner, pattern = np.asarray(graph.graph), graph.adjacency
    size = np.bincount(owner, minlength=graph.num_graphs)
    start = (np.cumsum(size) - size)[owner]
    node = np.stack([owner, graph.node_type, np.diff(pattern.indptr)], axis=1)
    ends = (each - start[pattern.row] for each in (pattern.row, pattern.indices))
    return [pdl.as_tensor(each) for each in (size, node, np.stack([owner[pattern.row], *ends], axis=1))]


class OwnGraph(Mapping[str, np.ndarray]):
    """The arrays of a run's graph, opened on first use: the constants of its bundle."""

    def __init__(self, graph: Callable[[], Graph]) -> None:
        self.graph = graph

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        lists = neighbours_of(self.graph())
        return {f"{GRAPH}.start": lists.start, f"{GRAPH}.neighbours": lists.neighbours}

    def __getitem__(self, name: str) -> np.ndarray:
        return self.arrays[name]

    def __contains__(self, name: object) -> bool:
        return name in (f"{GRAPH}.start", f"{GRAPH}.neighbours")

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrays)

    def __len__(self) -> int:
        return len(self.arrays)


class SubgraphDeployer(LinkDeployer):
    """As that of links, for pairs of the nodes of the graph in the bundle, and for those of other graphs."""

    task: SubgraphLinks

    def deployment(self, model: Module, dataset: Any = None) -> Deployment:
        task, recipe = self.task, self.recipe
        if task.graph is None and dataset is not None:
            task.graph = split_of(dataset)[0].graph
        names, cut = task.vocabularies[NODES], {"hops": task.hops, "max_nodes": task.max_nodes}
        step = {"step": "enclosing_subgraph", "vocabulary": NODES, "graph": GRAPH, **cut}
        n, nodes, edges = Dim.symbol("n", 3), Dim.symbol("nodes", 40), Dim.symbol("edges", 160)
        return Deployment(
            module=BySubgraphs(model),
            inputs={"size": Spec((n,), int64), "node": Spec((nodes, 3), int64), "edge": Spec((edges, 3), int64)},
            outputs=(OUTPUT,),
            pre={part: [{**step, "part": part}] for part in PARTS},
            post={OUTPUT: [dict(each) for each in POST]},
            samples=example_pairs(names),
            labels=LABELS,
            vocabularies={NODES: names},
            constants=OwnGraph(self.message_graph),
            about={**recipe.identity(), "parameters": sum(p.size for p in model.parameters())},
        )

    def card(self, model: Module) -> Card:
        return Card(
            title=f"{type(model).__name__}: which nodes are joined",
            summary=f"The probability of an edge between two nodes, read from their enclosing subgraph "
            f"({self.recipe.model.target}): for the nodes of the graph in this bundle, by name, and for any other "
            "graph. It was learned with as many edges as pairs without one; among all pairs edges are rarer.",
            protocol=f"{MEASURED} The net sees the graph without the test edges, and of a pair's own edge nothing.",
            use='    session = pdl.runtime.load("model.pdl")\n    session({"pair": ["a", "b"]})\n    '
            'session({"graph": "folder", "pair": ["a", "b"]})\n\n'
            "or `pdl predict model.pdl --pairs pairs.csv [--new-graph folder]`.",
            data=self.learned_from,
        )
