"""Models that know the nodes of one graph by name: a vector for each, and answers from these, in runs and bundles."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

import pdl
from pdl.dims import Dim
from pdl.dtype import int64
from pdl.export.deployment import Deployment
from pdl.nn import Module, ModuleList
from pdl.ops.base import Spec
from pdl.tensor import Tensor
from pdl.vocabulary import Vocabulary
from pdl_graph.graph import Graph

NODES = "nodes"
SAMPLES = 8


@dataclass(frozen=True)
class NodeTable:
    """A model that answers queries about the nodes of its training graph from their vectors.

    kind     the query: "node" or "pair"
    names    of the nodes, numbered from 1
    vectors  [N + 1, C], those of the nodes by number; row 0 is no node's
    answer   (vectors, numbers int64 [n, 1] or [n, 2]) -> [n, ...];    decoder  the module in it that has weights
    output   the name of what is answered;    post  the steps behind it;    labels  the names that these give
    """

    kind: Literal["node", "pair"]
    names: Vocabulary
    vectors: np.ndarray
    answer: Callable[[Tensor, Tensor], Tensor]
    output: str
    post: Sequence[Mapping[str, Any]]
    labels: Sequence[str] = ()
    decoder: Module | None = None

    def deployment(
        self, about: Mapping[str, Any] | None = None, *, beside: Mapping[str, Module] | None = None
    ) -> Deployment:
        """A bundle that holds the vectors and answers by the nodes' names. `beside` are further outputs, without steps:
        modules by name that read the vector of the query's (first) node."""
        return Deployment(
            module=TableLookup(self, beside),
            inputs={"query": Spec((Dim.symbol("n", 3), 1 if self.kind == "node" else 2), int64)},
            outputs=(self.output, *(beside or {})),
            pre={"query": [{"step": "nodes", "vocabulary": NODES, "kind": self.kind}]},
            post={self.output: [dict(step) for step in self.post]},
            samples=self.samples(),
            labels=self.labels,
            vocabularies={NODES: self.names},
            about={**(about or {}), "parameters": int(self.vectors.size)},
        )

    def samples(self) -> list[dict[str, Any]]:
        """A few example queries: nodes or pairs."""
        return example_pairs(self.names) if self.kind == "pair" else [{"node": name} for name in _some_of(self.names)]


class TableLookup(Module):
    """The vectors of the nodes, and the function that answers queries from them."""

    vectors: Tensor

    def __init__(self, table: NodeTable, beside: Mapping[str, Module] | None = None) -> None:
        self.decoder, self.table = table.decoder, table
        self.others = ModuleList((beside or {}).values())
        self.register_buffer("vectors", pdl.Tensor(np.ascontiguousarray(table.vectors, np.float32)))

    def forward(self, query: Tensor) -> Any:
        answer = self.table.answer(self.vectors, query)
        rows = pdl.take(self.vectors, query[:, 0]) if self.others else None
        return (answer, *(other(rows) for other in self.others)) if self.others else answer


def names_of(graph: Graph) -> Vocabulary:
    """The nodes of a graph by name, in their order; what has none is called by its number."""
    return Vocabulary([str(name) for name in graph.names] if len(graph.names) else map(str, range(graph.num_nodes)))


def with_unknown(vectors: Any) -> np.ndarray:
    """Vectors [N, C] of nodes with the row of no node before them, [N + 1, C]."""
    rows = pdl.as_tensor(vectors).numpy()
    return np.concatenate([np.zeros((1, rows.shape[1]), rows.dtype), rows])


def _some_of(names: Vocabulary) -> list[str]:
    return [names[i * len(names) // SAMPLES] for i in range(min(SAMPLES, len(names)))]


def example_pairs(names: Vocabulary) -> list[dict[str, list[str]]]:
    """A few example pairs."""
    chosen = _some_of(names)
    return [{"pair": [a, b]} for a, b in zip(chosen, [*chosen[1:], chosen[0]], strict=True)]
