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
class Known:
    """How a model answers for nodes that it knows.

    kind     what is asked: "node" or "pair"
    names    of the nodes, numbered from 1
    vectors  [N + 1, C], those of the nodes by number; row 0 is no node's
    answer   (vectors, numbers int64 [n, 1] or [n, 2]) -> [n, ...];    decoder  what it learned, if anything
    output   the name of what is answered;    post  the steps behind it
    """

    kind: Literal["node", "pair"]
    names: Vocabulary
    vectors: np.ndarray
    answer: Callable[[Tensor, Tensor], Tensor]
    output: str
    post: Sequence[Mapping[str, Any]]
    labels: Sequence[str] = ()
    decoder: Module | None = None

    def steps(self) -> dict[str, Any]:
        """The pipeline, as plain values."""
        pre = {"ask": [{"step": "nodes", "vocabulary": NODES, "kind": self.kind}]}
        return {"pre": pre, "post": {self.output: [dict(step) for step in self.post]}}


class Table(Module):
    """The vectors of the nodes, and what is answered from them."""

    vectors: Tensor

    def __init__(self, known: Known, beside: Mapping[str, Module] | None = None) -> None:
        self.decoder, self.known = known.decoder, known
        self.others = ModuleList((beside or {}).values())
        self.register_buffer("vectors", pdl.Tensor(np.ascontiguousarray(known.vectors, np.float32)))

    def forward(self, ask: Tensor) -> Any:
        answer = self.known.answer(self.vectors, ask)
        rows = pdl.take(self.vectors, ask[:, 0]) if self.others else None
        return (answer, *(other(rows) for other in self.others)) if self.others else answer


def names_of(graph: Graph) -> Vocabulary:
    """The nodes of a graph by name, in their order; what has none is called by its number."""
    return Vocabulary([str(name) for name in graph.names] if len(graph.names) else map(str, range(graph.num_nodes)))


def with_none(vectors: Any) -> np.ndarray:
    """Vectors [N, C] of nodes with the row of no node before them, [N + 1, C]."""
    rows = pdl.as_tensor(vectors).numpy()
    return np.concatenate([np.zeros((1, rows.shape[1]), rows.dtype), rows])


def some_of(names: Vocabulary) -> list[str]:
    """A few names."""
    return [names[i * len(names) // SAMPLES] for i in range(min(SAMPLES, len(names)))]


def pairs_to_try(names: Vocabulary) -> list[dict[str, list[str]]]:
    """A few pairs to ask for."""
    chosen = some_of(names)
    return [{"pair": [a, b]} for a, b in zip(chosen, [*chosen[1:], chosen[0]], strict=True)]


def deployment(
    known: Known, *, card: str, licence: str, about: Mapping[str, Any], beside: Mapping[str, Module] | None = None
) -> Deployment:
    """A bundle that holds the nodes' vectors and answers by their names. `beside` are further outputs, without steps:
    modules by name that read the vector of the (first) node asked for."""
    steps, width = known.steps(), 1 if known.kind == "node" else 2
    return Deployment(
        module=Table(known, beside),
        inputs={"ask": Spec((Dim.symbol("n", 3), width), int64)},
        outputs=(known.output, *(beside or {})),
        pre=steps["pre"],
        post=steps["post"],
        samples=pairs_to_try(known.names) if width == 2 else [{"node": each} for each in some_of(known.names)],
        labels=known.labels,
        vocabularies={NODES: known.names},
        card=card,
        licence=licence,
        about={**about, "parameters": int(known.vectors.size)},
    )


__all__ = ["NODES", "Known", "Table", "deployment", "names_of", "pairs_to_try", "with_none"]
