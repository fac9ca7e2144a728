"""A net of subgraphs in use: its answers for pairs of nodes, and its bundle, which holds the graph.

The step cuts the subgraph around a pair (`pdl_graph.steps.subgraphs`), in runs as in bundles.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
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
from pdl.tensor import Tensor
from pdl.train import Recipe
from pdl_graph import deploy, named
from pdl_graph.batch import GraphBatch
from pdl_graph.link import use
from pdl_graph.link.subgraphs import neighbours_of

if TYPE_CHECKING:
    from pdl_graph.link.around import SubgraphLinks

GRAPH, PARTS = "graph", ("size", "node", "edge")
PROTOCOL = (
    "Areas under curves over the edges of a split and as many pairs without an edge (ties count a half). The net sees "
    "the graph without the test edges, and of a pair's own edge nothing."
)


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


def as_inputs(graph: GraphBatch) -> list[Tensor]:
    """A batch of training as the inputs of a bundle."""
    owner, pattern = np.asarray(graph.graph), graph.adjacency
    size = np.bincount(owner, minlength=graph.num_graphs)
    start = (np.cumsum(size) - size)[owner]
    node = np.stack([owner, graph.node_type, np.diff(pattern.indptr)], axis=1)
    ends = (each - start[pattern.row] for each in (pattern.row, pattern.indices))
    return [pdl.as_tensor(each) for each in (size, node, np.stack([owner[pattern.row], *ends], axis=1))]


def steps(task: SubgraphLinks) -> dict[str, Any]:
    """The pipeline, as plain values."""
    about = {"vocabulary": named.NODES, "graph": GRAPH, "hops": task.hops, "max_nodes": task.max_nodes}
    pre = {part: [{"step": "enclosing_subgraph", "part": part, **about}] for part in PARTS}
    return {"pre": pre, "post": {use.OUTPUT: [dict(step) for step in use.POST]}}


class OwnGraph(Mapping[str, np.ndarray]):
    """The arrays of the graph of a run, which is opened when it is first asked for: the constants of its bundle."""

    def __init__(self, task: SubgraphLinks, recipe: Recipe) -> None:
        self.task, self.recipe = task, recipe

    @cached_property
    def arrays(self) -> dict[str, np.ndarray]:
        lists = neighbours_of(use.message_graph(self.task, self.recipe))
        return {f"{GRAPH}.start": lists.start, f"{GRAPH}.neighbours": lists.neighbours}

    def __getitem__(self, name: str) -> np.ndarray:
        return self.arrays[name]

    def __contains__(self, name: object) -> bool:
        return name in (f"{GRAPH}.start", f"{GRAPH}.neighbours")

    def __iter__(self) -> Iterator[str]:
        return iter(self.arrays)

    def __len__(self) -> int:
        return len(self.arrays)


def deployment(
    task: SubgraphLinks, model: Module, recipe: Recipe, *, metrics: Mapping[str, float | None], licence: str
) -> Deployment:
    """A bundle that holds the graph and answers for pairs of its nodes, and for those of other graphs."""
    own = OwnGraph(task, recipe)
    card = deploy.card_of(
        f"{type(model).__name__}: which nodes are joined",
        f"The probability of an edge between two nodes, read from the subgraph around them ({recipe.model.target}): "
        "for the nodes of the graph in this bundle, by name, and for any other graph. It was learned with as many "
        "edges as pairs without one; among all pairs edges are rarer.",
        recipe,
        metrics,
        protocol=PROTOCOL,
        use='    session = pdl.runtime.load("model.pdl")\n    session({"pair": ["a", "b"]})\n    '
        'session({"graph": "folder", "pair": ["a", "b"]})\n\n'
        "or `pdl predict model.pdl --pairs pairs.csv [--new-graph folder]`.",
        licence=licence,
    )
    n, nodes, edges = Dim.symbol("n", 3), Dim.symbol("nodes", 40), Dim.symbol("edges", 160)
    told = steps(task)
    return Deployment(
        module=BySubgraphs(model),
        inputs={"size": Spec((n,), int64), "node": Spec((nodes, 3), int64), "edge": Spec((edges, 3), int64)},
        outputs=(use.OUTPUT,),
        pre=told["pre"],
        post=told["post"],
        samples=named.pairs_to_try(task.vocabularies[named.NODES]),
        labels=use.LABELS,
        vocabularies={named.NODES: task.vocabularies[named.NODES]},
        constants=own,
        card=card,
        licence=licence,
        about={**recipe.identity(), "parameters": sum(p.size for p in model.parameters())},
    )


__all__ = ["PARTS", "BySubgraphs", "as_inputs", "deployment"]
