"""Relational graph convolutional networks, for edges of several types."""

from __future__ import annotations

from itertools import pairwise
from math import sqrt
from typing import Any

import pdl
from pdl import Tensor
from pdl.errors import ConfigError
from pdl.nn import Embedding, Module, ModuleList, Parameter, init
from pdl.ops import CSR
from pdl_graph.batch import GraphBatch, SparseFeatures, dropped, project
from pdl_graph.models.layered import LayeredModel
from pdl_graph.models.mlp import Rate, Size
from pdl_graph.models.propagation import required


class RGCNConv(Module):
    """y[i] = sum over relations r of the mean of x[j] W_r over i's edges of type r, + x[i] W_0 + b: Schlichtkrull et
    al., "Modeling relational data with graph convolutional networks", arXiv 1703.06103, equation 2 with c = |N_i^r|.

    bases    W_r = sum over b of a[r, b] V_b with this many V_b (equation 3)
    blocks   W_r consists of this many blocks on the diagonal (equation 4); it must divide in_ and out_features
             with neither each W_r is a matrix of its own

    Weights of edges are not read.
    """

    def __init__(
        self,
        in_features: Size,
        out_features: Size,
        num_relations: Size,
        *,
        bases: Size | None = None,
        blocks: Size | None = None,
        bias: bool = True,
    ) -> None:
        if bases and blocks:
            raise ConfigError("RGCNConv: bases and blocks are two ways to save weights; give one of them")
        if blocks and (in_features % blocks or out_features % blocks):
            raise ConfigError(f"RGCNConv: {blocks} blocks do not divide {in_features} and {out_features} features")
        self.in_features, self.out_features, self.num_relations = in_features, out_features, num_relations
        self.bases, self.blocks = bases, blocks
        shape = (bases or num_relations, in_features, out_features)
        if blocks:
            shape = (num_relations * blocks, in_features // blocks, out_features // blocks)
        bound = sqrt(6 / (shape[1] + shape[2]))
        self.weight = Parameter(init.uniform_(pdl.zeros(shape), -bound, bound))
        bound = sqrt(6 / (num_relations + (bases or 1)))
        self.mix = Parameter(init.uniform_(pdl.zeros((num_relations, bases)), -bound, bound)) if bases else None
        self.own = Parameter(init.xavier_uniform_(pdl.zeros((in_features, out_features))))
        self.bias = Parameter(pdl.zeros((out_features,))) if bias else None

    def forward(self, adjacency: CSR, x: Any, edge_type: Any) -> Tensor:
        """x [columns, in], dense or `SparseFeatures` (not with blocks), edge_type int [E] -> [rows, out]; the rows' own
        vectors are the first of x."""
        rows, columns = adjacency.shape
        kind = pdl.as_tensor(edge_type)
        share = self._share(adjacency, kind)
        y = self._by_blocks(adjacency, x, kind, share) if self.blocks else self._by_bases(adjacency, x, kind, share)
        y = y + (project(x, self.own) if rows == columns else project(x, self.own)[:rows])
        return y if self.bias is None else y + self.bias

    def _share(self, adjacency: CSR, kind: Tensor) -> Tensor:
        """1 / |N_i^r| for every edge [E]."""
        group = pdl.astype(pdl.as_tensor(adjacency.row), pdl.int64) * self.num_relations + kind
        count = pdl.segment_count(group, num_segments=adjacency.shape[0] * self.num_relations)
        return 1.0 / pdl.astype(pdl.take(count, group), pdl.float32)

    def _by_bases(self, adjacency: CSR, x: Any, kind: Tensor, share: Tensor) -> Tensor:
        """The products with all V_b at once; each edge weighs them as its type says."""
        count, width = self.weight.shape[0], self.out_features
        wide = pdl.reshape(pdl.permute_dims(self.weight, (1, 0, 2)), (self.in_features, count * width))
        projected = project(x, wide)
        if self.mix is None:  # one product is meant for each edge, that of its type
            at = pdl.astype(pdl.as_tensor(adjacency.indices), pdl.int64) * count + kind
            return _summed(adjacency, pdl.segment_take(pdl.reshape(projected, (-1, width)), at), share)
        weight = pdl.take(self.mix, kind, axis=0) * pdl.expand_dims(share, axis=1)
        return pdl.sum(pdl.spmm(adjacency, pdl.reshape(projected, (-1, count, width)), weight), axis=1)

    def _by_blocks(self, adjacency: CSR, x: Any, kind: Tensor, share: Tensor) -> Tensor:
        """The products of all nodes with all relations, or of each edge with its own: whichever are fewer numbers."""
        if isinstance(x, SparseFeatures):
            raise ConfigError("RGCNConv: blocks multiply dense features; use bases")
        blocks, (_, wide, narrow) = self.blocks or 1, self.weight.shape
        relations, columns, width = self.num_relations, adjacency.shape[1], self.out_features
        weight = pdl.reshape(self.weight, (relations, blocks, wide, narrow))
        parts = pdl.reshape(pdl.as_tensor(x), (columns, blocks, wide))
        if columns * relations <= adjacency.nonzeros * wide:
            projected = pdl.reshape(pdl.einsum("nbi,rbio->nrbo", parts, weight), (columns * relations, width))
            at = pdl.astype(pdl.as_tensor(adjacency.indices), pdl.int64) * relations + kind
            return _summed(adjacency, pdl.segment_take(projected, at), share)
        sent = pdl.segment_take(parts, pdl.as_tensor(adjacency.indices))
        made = pdl.sum(pdl.expand_dims(sent, axis=3) * pdl.take(weight, kind, axis=0), axis=2)
        return _summed(adjacency, pdl.reshape(made, (adjacency.nonzeros, width)), share)


def _summed(adjacency: CSR, message: Tensor, weight: Tensor) -> Tensor:
    weighted = message * pdl.expand_dims(weight, axis=1)
    return pdl.segment_sum(weighted, pdl.as_tensor(adjacency.row), num_segments=adjacency.shape[0])


class RGCN(LayeredModel):
    """Layers of `RGCNConv` with ReLU between them: Schlichtkrull et al., arXiv 1703.06103, section 3.

    num_relations   types of edges; the graph's `edge_type` names them by number. Edges that are to be followed both
                    ways stand in the graph twice, with two types
    num_nodes       nodes without features get a learned vector of `hidden` numbers each: how many nodes there are
    hidden          width of the layers between;  num_layers  how many there are in all
    bases, blocks   how weights are saved, see `RGCNConv`; blocks only between hidden layers, where widths divide
    dropout         before each layer but the first
    """

    def __init__(
        self,
        num_features: int | None = None,
        num_classes: Size | None = None,
        num_relations: Size | None = None,
        num_nodes: Size | None = None,
        *,
        hidden: Size = 16,
        num_layers: Size = 2,
        bases: Size | None = None,
        blocks: Size | None = None,
        dropout: Rate = 0.0,
    ) -> None:
        self.num_classes = required(self, num_classes=num_classes)
        self.num_relations = relations = required(self, num_relations=num_relations)
        self.num_features, self.num_layers, self.dropout = num_features or 0, num_layers, dropout
        self.num_nodes = 0 if self.num_features else required(self, num_nodes=num_nodes)
        self.embedding = Embedding(self.num_nodes, hidden) if self.num_nodes else None
        if self.embedding is not None:
            init.xavier_uniform_(self.embedding.weight)
        sizes = [self.num_features or hidden, *[hidden] * (num_layers - 1), self.num_classes]
        pairs = pairwise(sizes)
        self.convs = ModuleList(
            RGCNConv(a, b, relations, bases=bases, blocks=blocks if _divides(blocks, a, b) else None) for a, b in pairs
        )

    def layer(self, index: int, graph: GraphBatch, x: Any) -> Tensor:
        if graph.edge_type is None:
            raise ConfigError("RGCN: the graph has no edge_type; give its edges types, or use GraphSAGE or GCN")
        if index == 0 and self.embedding is not None:  # x: the numbers of the nodes, or nothing: all in order
            x = self.embedding.weight if x is None else self.embedding(pdl.as_tensor(x))
        x = dropped(x, self.dropout if index else 0.0, training=self.training)
        y: Tensor = self.convs[index](graph.adjacency, x, graph.edge_type)
        return y if index == self.num_layers - 1 else pdl.relu(y)


def _divides(blocks: int | None, *sizes: int) -> bool:
    return bool(blocks) and all(size % (blocks or 1) == 0 for size in sizes)


TASK = "node classification"
VARIANTS = {"rgcn": {"_target_": "pdl_graph.RGCN", "bases": 8}}
