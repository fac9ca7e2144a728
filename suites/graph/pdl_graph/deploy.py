"""What of a graph net goes into a bundle: a folder of nodes and edges in, answers for its nodes or pairs out.

A run answers through the same steps as its bundle, for new graphs and for the graph that it learned from.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import islice
from typing import Any, Literal

import numpy as np

import pdl
from pdl.dims import Dim
from pdl.dtype import float32, int32, int64
from pdl.nn import Module
from pdl.ops import CSR
from pdl.ops.base import Spec
from pdl.runtime.graph_folder import GraphFolder
from pdl.runtime.graph_input import Form, GraphPart, opened
from pdl.runtime.pipeline import Pipeline
from pdl.tensor import Tensor, no_grad
from pdl.train import Deployment
from pdl_graph.batch import GraphBatch
from pdl_graph.features import dense
from pdl_graph.graph import Graph

Kind = Literal["node", "pair"]
SAMPLES, SAMPLE_NODES = 8, 200
ARRAYS = ("x", "indptr", "indices", "row", "weight")


@dataclass(frozen=True)
class Answering:
    """How a model answers for a graph.

    kind    what is asked: "node", its number, or "pair", the numbers of two
    encode  what is computed once for a graph: its arrays -> [N, C]
    answer  what is asked of that: ([N, C], int64 [n] or [n, 2]) -> [n, ...]
    form    how folders become arrays;    weighted  whether edges have weights
    output  the name of what is answered;    post  the steps behind it
    """

    model: Module
    kind: Kind
    encode: Callable[[GraphBatch], Tensor]
    answer: Callable[[Tensor, Tensor], Tensor]
    form: Form
    weighted: bool
    output: str
    post: Sequence[Mapping[str, Any]]

    @property
    def parts(self) -> tuple[str, ...]:
        """The inputs of the bundle."""
        return (*(name for name in ARRAYS if name != "weight" or self.weighted), "ask")

    def steps(self) -> dict[str, Any]:
        """The pipeline, as plain values."""
        about = {"kind": self.kind, **asdict(self.form)}
        pre = {part: [{"step": "graph", "part": part, **about}] for part in self.parts}
        return {"pre": pre, "post": {self.output: [dict(step) for step in self.post]}}

    def pipeline(self, labels: Sequence[str] = ()) -> Pipeline:
        """The bundle's pipeline."""
        made = Pipeline.read(self.steps(), labels, "the task's pipeline", {})
        assert made is not None
        return made

    def graph(self, arrays: Mapping[str, Any]) -> GraphBatch:
        """What the model reads, of arrays by part. They are not differentiated, so the transposed pattern is not there:
        what stands for it has its shape alone."""
        indptr, indices, row = arrays["indptr"], arrays["indices"], arrays["row"]
        pattern = CSR(indptr, indices, row, indptr, indices, row)
        return GraphBatch(pattern, arrays["x"], edge_weight=arrays["weight"] if self.weighted else None)


class ByPosition(Module):
    """A model with its inputs by position: the arrays of a graph, and what is asked of it."""

    def __init__(self, how: Answering) -> None:
        self.model, self.how = how.model, how

    def forward(self, *arrays: Tensor) -> Tensor:
        given = dict(zip(self.how.parts, arrays, strict=True))
        return self.how.answer(self.how.encode(self.how.graph(given)), given["ask"])


class Asked(GraphPart, table={}, name="graph"):
    """What reads the questions put to a run: as `GraphPart`, but where an item names no graph the one that the run
    learned from is meant, which `own` opens."""

    def __init__(self, kind: Kind, form: Form, own: Callable[[], GraphFolder]) -> None:
        super().__init__("ask", kind, **asdict(form))
        self.own = own

    def _folder(self, item: Any) -> Any:
        if not isinstance(item, Mapping) or "graph" in item:
            return super()._folder(item)
        return self.own()

    def meant(self, item: Any) -> dict[str, Any]:
        """An item of `pdl.train.predict`: a mapping, or the bare name of a node, or two of a pair."""
        if isinstance(item, Mapping):
            return dict(item)
        if self.takes == "node":
            return {"node": str(item)}
        return {"pair": item.split(":") if isinstance(item, str) else [str(each) for each in item]}

    def source(self, item: Any) -> tuple[GraphFolder, dict[str, np.ndarray]]:
        """The graph that an item asks of, and its arrays."""
        return opened(self._folder(item), self.form)


def folder_of(graph: Graph, called: str = "the graph of this run") -> GraphFolder:
    """A graph as if it had been read from a folder."""
    source, target = graph.edges()
    keep = np.ones(len(source), bool) if graph.directed else source <= target
    weight = None if graph.edge_weight is None else np.asarray(graph.edge_weight[keep], np.float32)
    names = [str(name) for name in graph.names] if len(graph.names) else [str(n) for n in range(graph.num_nodes)]
    x = None if graph.x is None else np.asarray(dense(graph.x), np.float32)
    return GraphFolder(called, names, x, [], source[keep].astype(np.int64), target[keep].astype(np.int64), weight)


def predict(
    how: Answering, reader: Asked, inputs: Sequence[Any], labels: Sequence[str], *, batch_size: int, topk: int | None
) -> Iterator[dict[str, Any]]:
    """One dict for each input, in order. A graph is encoded once, however many questions are put to it."""
    pipeline = how.pipeline(labels)
    if topk is not None and any("k" in step for step in how.post):
        pipeline.set(k=topk)
    encoded: dict[int, tuple[Any, Tensor]] = {}
    waiting = iter(inputs)
    how.model.eval()
    while group := [reader.meant(each) for each in islice(waiting, batch_size)]:
        for item in group:
            arrays = reader.source(item)[1]
            if id(arrays) not in encoded:
                with no_grad():
                    encoded = {id(arrays): (arrays, how.encode(how.graph(arrays)))}
            ask = reader.read(item, {})
            with no_grad():
                found = how.answer(encoded[id(arrays)][1], pdl.as_tensor(ask[None])).numpy()[0]
            yield {"input": reader.called(item), **pipeline.finish({how.output: found}), "_item": item}


def deployment(
    how: Answering,
    graph: Graph | None,
    *,
    labels: Sequence[str] = (),
    card: str = "",
    licence: str = "",
    about: Mapping[str, Any],
) -> Deployment:
    """The bundle, checked on a part of `graph`, or, without one, of a made-up graph."""
    known = made_up(how.form.features) if graph is None else graph
    part = folder_of(known.subgraph(few(known)), "a part of the graph of this run")
    nodes, edges = Dim.symbol("nodes", known.num_nodes), Dim.symbol("edges", max(known.num_edges, 1))
    specs = {
        "x": Spec((nodes, how.form.features), float32),
        "indptr": Spec((nodes + 1,), int64),
        "indices": Spec((edges,), int32),
        "row": Spec((edges,), int32),
        "weight": Spec((edges,), float32),
        "ask": Spec((Dim.symbol("n", 3), *([2] if how.kind == "pair" else [])), int64),
    }
    steps = how.steps()
    return Deployment(
        module=ByPosition(how),
        inputs={name: specs[name] for name in how.parts},
        outputs=(how.output,),
        pre=steps["pre"],
        post=steps["post"],
        samples=questions(how.kind, part),
        prepare=how.pipeline(labels).prepare,
        labels=labels,
        card=card,
        licence=licence,
        about={**about, "parameters": sum(p.size for p in how.model.parameters())},
    )


def questions(kind: Kind, graph: GraphFolder) -> list[dict[str, Any]]:
    """A few questions to a graph."""
    n = len(graph.names)
    chosen = [graph.names[i * n // SAMPLES] for i in range(min(SAMPLES, n))]
    if kind == "node":
        return [{"graph": graph, "node": name} for name in chosen]
    others = [*chosen[1:], chosen[0]]
    return [{"graph": graph, "pair": [a, b]} for a, b in zip(chosen, others, strict=True)]


def few(graph: Graph) -> np.ndarray:
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


def made_up(features: int) -> Graph:
    """A ring of 64 nodes with features drawn at random."""
    ring = np.arange(64)
    x = np.random.default_rng(0).random((64, features), np.float32)
    return Graph.from_edges(ring, np.roll(ring, 1), 64, directed=False, x=x)


def as_inputs(parts: Sequence[str], graph: GraphBatch, ask: Any) -> list[Tensor]:
    """A graph and questions as the inputs of a bundle, in their order."""
    a = graph.adjacency
    given = {
        "x": dense_tensor(graph.x), "indptr": a.indptr, "indices": a.indices, "row": a.row,
        "weight": graph.edge_weight, "ask": ask,
    }  # fmt: skip
    return [pdl.as_tensor(given[name]) for name in parts]


def dense_tensor(x: Any) -> Any:
    """Features [N, F] as a bundle reads them."""
    if not hasattr(x, "pattern"):
        return x
    made = np.zeros(x.shape, np.float32)
    rows, columns = (pdl.as_tensor(each).numpy() for each in (x.pattern.row, x.pattern.indices))
    made[rows, columns] = pdl.as_tensor(x.value).numpy()
    return made


def metric_table(metrics: Mapping[str, float | None]) -> str:
    """What was measured on val and test, in markdown."""
    measured = {name: value for name, value in metrics.items() if name.startswith(("test/", "val/"))}
    rows = [f"| {name} | {'-' if value is None else f'{value:.4f}'} |" for name, value in measured.items()]
    return "\n".join(["| metric | value |", "|---|---|", *rows]) if rows else "Not measured."


def card_of(
    title: str, what: str, cfg: Any, metrics: Mapping[str, float | None], *, protocol: str, use: str, licence: str
) -> str:
    """A model card, in markdown."""
    source = cfg["data"].get("train") or {}
    parts = [
        f"# {title}",
        what,
        "## Data",
        f"Learned from {source.get('_target_', 'data that the recipe names')} {source.get('name') or ''}; config.yaml "
        "in this bundle holds the whole recipe.",
        "## Metrics",
        f"{protocol}\n\n{metric_table(metrics)}",
        "## Licence",
        licence or "Not stated: ask whoever gave you this file.",
        "## Use",
        use,
    ]
    return "\n\n".join(parts) + "\n"


__all__ = [
    "Answering", "Asked", "ByPosition", "as_inputs", "card_of", "deployment", "folder_of", "made_up", "metric_table",
    "predict", "questions",
]  # fmt: skip
