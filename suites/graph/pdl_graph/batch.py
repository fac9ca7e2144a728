"""What graph nets read: the arrays of a graph, or of several as one, as a tree that goes through compiled steps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pdl
from pdl.ops import CSR
from pdl.tensor import Tensor
from pdl_graph.message_passing import Message, recv, send


@dataclass(frozen=True)
class SparseFeatures:
    """Features of nodes that are mostly zeros: the pattern [N, F] and the nonzero values [E]."""

    pattern: CSR
    value: Any

    @property
    def shape(self) -> tuple[int, int]:
        """(N, F)."""
        return self.pattern.shape


@dataclass(frozen=True)
class GraphBatch:
    """A graph as arrays (or tensors); several graphs are one whose parts are not joined.

    adjacency    rows are nodes that receive, columns nodes that send; square, except for the layers of a sampled
                 neighbourhood, whose receiving nodes are the first of the sending ones
    x            features of the (sending) nodes [N, F], or SparseFeatures; None where nodes have none
    edge_weight  [E], in the order of the adjacency's nonzeros
    edge_attr    [E, D] likewise;    edge_type int64 [E] likewise
    node_type    int64 [N]
    graph        int64 [N], the graph that each node belongs to, ascending;    num_graphs  how many there are
    """

    adjacency: CSR
    x: Any = None
    edge_weight: Any = None
    edge_attr: Any = None
    edge_type: Any = None
    node_type: Any = None
    graph: Any = None
    num_graphs: int = 1

    @property
    def num_nodes(self) -> int:
        """Nodes that receive."""
        return self.adjacency.shape[0]

    def send(
        self, fn: Callable[[Any, Any, Any], Any], *, src_feat: Any = None, dst_feat: Any = None, edge_feat: Any = None
    ) -> Message:
        """The messages fn(source, target, edge) of all edges: a tensor [E, ...], or a dict of them.

        src_feat    of the nodes that send [N, ...]: fn gets them for every edge [E, ...]
        dst_feat    of the nodes that receive, likewise
        edge_feat   of the edges [E, ...];    each of the three a tensor, a dict of tensors, or None
        """
        return send(self.adjacency, fn, src_feat=src_feat, dst_feat=dst_feat, edge_feat=edge_feat)

    def recv(self, reduce: str | Callable[[Message], Any], message: Message) -> Any:
        """What the nodes make of the messages they receive, [N, ...].

        reduce   "sum", "mean", "max", "min" or "softmax", of each tensor in the message; or a function of the `Message`

            def attend(message):
                return message.reduce(message.softmax(message["score"]) * message["h"], "sum")
        """
        return recv(reduce, message)


def dropped(x: Any, p: float, *, training: bool) -> Any:
    """dropout(x) for features that are dense or sparse; of sparse ones the nonzeros alone can fall."""
    if not (training and p):
        return x if isinstance(x, SparseFeatures) else pdl.as_tensor(x)
    if isinstance(x, SparseFeatures):
        return replace(x, value=pdl.dropout(pdl.as_tensor(x.value), p=p))
    return pdl.dropout(pdl.as_tensor(x), p=p)


def project(x: Any, weight: Any, *, dropout: float = 0.0, training: bool = False) -> Tensor:
    """(dropout(x)) weight, for features [N, F] dense or sparse and weight [F, C]."""
    x = dropped(x, dropout, training=training)
    if isinstance(x, SparseFeatures):
        return pdl.spmm(x.pattern, weight, x.value)
    return pdl.matmul(x, weight)
