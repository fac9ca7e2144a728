"""What of a graph net goes into a bundle: a folder of nodes and edges in, answers for its nodes or pairs out.

A run answers through the same steps as its bundle, for new graphs and for the graph that it learned from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from typing import Any, Literal

import numpy as np

import pdl
from pdl.dims import Dim
from pdl.dtype import float32, int32, int64
from pdl.errors import ConfigError, DataError
from pdl.export.deployment import Deployment
from pdl.nn import Module
from pdl.ops import CSR
from pdl.ops.base import Spec
from pdl.tensor import Tensor
from pdl.train import Recipe
from pdl_graph.batch import GraphBatch
from pdl_graph.features import dense
from pdl_graph.graph import Graph
from pdl_graph.steps.graph_folder import GraphFolder
from pdl_graph.steps.graphs import Form

Kind = Literal["node", "pair", "graph"]
SAMPLES, SAMPLE_NODES = 8, 200
ARRAYS = ("x", "indptr", "indices", "row")


@dataclass(frozen=True)
class InductiveModel:
    """A model that answers for any graph.

    kind    the query: "node", its number, "pair", the numbers of two, or the "graph" itself
    encode  what is computed once for a graph: its arrays -> [N, C], or [1, ...] for a query about the graph
    answer  from that and the query: ([N, C], int64 [n] or [n, 2]) -> [n, ...]; not called for graphs
    form    how folders become arrays;    weighted  whether edges have weights
    output  the name of what is answered;    post  the steps behind it;    labels  the names that these give
    reads   the step that makes arrays of what is given, without its `part`; by default "graph", of folders
    """

    model: Module
    kind: Kind
    encode: Callable[[GraphBatch], Tensor]
    answer: Callable[[Tensor, Tensor], Tensor]
    form: Form
    weighted: bool
    output: str
    post: Sequence[Mapping[str, Any]]
    labels: Sequence[str] = ()
    reads: Mapping[str, Any] | None = None

    @property
    def parts(self) -> tuple[str, ...]:
        """The inputs of the bundle."""
        there = {"weight": self.weighted, "attributes": self.form.attributes > 0, "query": self.kind != "graph"}
        return (*ARRAYS, *(name for name, is_there in there.items() if is_there))

    def graph(self, arrays: Mapping[str, Any]) -> GraphBatch:
        """What the model reads, of arrays by part. They are not differentiated, so the transposed pattern is not there:
        what stands for it has its shape alone."""
        indptr, indices, row = arrays["indptr"], arrays["indices"], arrays["row"]
        pattern = CSR(indptr, indices, row, indptr, indices, row)
        zeros = pdl.as_tensor(indptr)[1:] * 0 if self.kind == "graph" else None  # all nodes are of graph 0
        weight = arrays["weight"] if self.weighted else None
        attributes = arrays["attributes"] if self.form.attributes else None
        return GraphBatch(pattern, arrays["x"], edge_weight=weight, edge_attr=attributes, graph=zeros)

    def deployment(
        self,
        graph: Graph | None,
        about: Mapping[str, Any],
        *,
        samples: Sequence[Any] | None = None,
        own: Callable[[], Graph] | None = None,
    ) -> Deployment:
        """The bundle, checked on `samples`, or on a part of `graph`, or, without one, of a made-up graph.

        own   opens the graph that a run learned from, of which it is asked where no other is given
        """
        given = synthetic_graph(self.form) if graph is None else graph
        if samples is None:
            part = folder_of(given.subgraph(_nearby_nodes(given)), "a part of the graph of this run")
            samples = example_queries(self.kind, part)
        reads = self.reads or {"step": "graph", "kind": self.kind, **asdict(self.form)}
        return Deployment(
            module=ByPosition(self),
            inputs=self._inputs(given),
            outputs=(self.output,),
            pre={part: [{**reads, "part": part}] for part in self.parts},
            post={self.output: [dict(step) for step in self.post]},
            samples=samples,
            labels=self.labels,
            about={**about, "parameters": sum(p.size for p in self.model.parameters())},
            memory={} if own is None else {"graph": cache(lambda: folder_of(own()))},
        )

    def _inputs(self, graph: Graph) -> dict[str, Spec]:
        nodes, edges = Dim.symbol("nodes", graph.num_nodes), Dim.symbol("edges", max(graph.num_edges, 1))
        specs = {
            "x": Spec((nodes, self.form.features), float32),
            "indptr": Spec((nodes + 1,), int64),
            "indices": Spec((edges,), int32),
            "row": Spec((edges,), int32),
            "weight": Spec((edges,), float32),
            "attributes": Spec((edges, self.form.attributes), float32),
            "query": Spec((Dim.symbol("n", 3), *([2] if self.kind == "pair" else [])), int64),
        }
        return {name: specs[name] for name in self.parts}


class ByPosition(Module):
    """A model with its inputs by position: the arrays of a graph, and the query."""

    def __init__(self, inductive: InductiveModel) -> None:
        self.model, self.inductive = inductive.model, inductive

    def forward(self, *arrays: Tensor) -> Tensor:
        given = dict(zip(self.inductive.parts, arrays, strict=True))
        found = self.inductive.encode(self.inductive.graph(given))
        return found if self.inductive.kind == "graph" else self.inductive.answer(found, given["query"])


def own_data(recipe: Recipe) -> Any:
    """The data set that a run learned from; DataError, with a way out, where it is not on this machine."""
    part = recipe.data.source
    if part is None:
        raise DataError("the run's recipe names no data, so its graph is not known; give one: --new-graph DIR")
    try:
        return part.build()
    except (DataError, ConfigError) as error:
        raise DataError(f"the graph of this run is not here, give one (--new-graph DIR): {error}") from None


def folder_of(graph: Graph, called: str = "the graph of this run") -> GraphFolder:
    """A graph as if it had been read from a folder."""
    source, target = graph.edges()
    keep = np.ones(len(source), bool) if graph.directed else source <= target
    weight = None if graph.edge_weight is None else np.asarray(graph.edge_weight[keep], np.float32)
    names = [str(name) for name in graph.names] if len(graph.names) else [str(n) for n in range(graph.num_nodes)]
    x = None if graph.x is None else np.asarray(dense(graph.x), np.float32)
    attributes = None if graph.edge_attr is None else np.asarray(graph.edge_attr[keep], np.float32)
    ends = source[keep].astype(np.int64), target[keep].astype(np.int64)
    return GraphFolder(called, names, x, [], *ends, weight, attributes)


def example_queries(kind: Kind, graph: GraphFolder) -> list[dict[str, Any]]:
    """A few queries to a graph."""
    if kind == "graph":
        return [{"graph": graph}]
    n = len(graph.names)
    chosen = [graph.names[i * n // SAMPLES] for i in range(min(SAMPLES, n))]
    if kind == "node":
        return [{"graph": graph, "node": name} for name in chosen]
    others = [*chosen[1:], chosen[0]]
    return [{"graph": graph, "pair": [a, b]} for a, b in zip(chosen, others, strict=True)]


def _nearby_nodes(graph: Graph) -> np.ndarray:
    """The first nodes that a search from the node with most edges meets, at most `SAMPLE_NODES`, in ascending order."""
    source, target = graph.edges()
    reached = np.zeros(graph.num_nodes, bool)
    order = [int(np.argmax(graph.in_degree() + graph.out_degree()))]
    reached[order] = True
    while len(order) < min(SAMPLE_NODES, graph.num_nodes):
        met = np.unique(source[reached[target] & ~reached[source]])
        met = met if len(met) else np.flatnonzero(~reached)[:1]
        order += met[: SAMPLE_NODES - len(order)].tolist()
        reached[order] = True
    return np.sort(order)


def synthetic_graph(form: Form) -> Graph:
    """A ring of 64 nodes with random features."""
    ring, rng = np.arange(64), np.random.default_rng(0)
    x, edges = rng.random((64, form.features), np.float32), rng.random((64, form.attributes), np.float32)
    about = {"x": x, **({"edge_attr": edges} if form.attributes else {})}
    return Graph.from_edges(ring, np.roll(ring, 1), 64, directed=False, **about)


def bundle_inputs(parts: Sequence[str], graph: GraphBatch, query: Any) -> list[Tensor]:
    """A graph and a query as the inputs of a bundle, in their order."""
    a = graph.adjacency
    given = {
        "x": _dense(graph.x), "indptr": a.indptr, "indices": a.indices, "row": a.row,
        "weight": graph.edge_weight, "attributes": graph.edge_attr, "query": query,
    }  # fmt: skip
    return [pdl.as_tensor(given[name]) for name in parts]


def _dense(x: Any) -> Any:
    """Features [N, F] as a bundle reads them."""
    if not hasattr(x, "pattern"):
        return x
    made = np.zeros(x.shape, np.float32)
    rows, columns = (pdl.as_tensor(each).numpy() for each in (x.pattern.row, x.pattern.indices))
    made[rows, columns] = pdl.as_tensor(x.value).numpy()
    return made
