"""Sampled neighbourhoods (Hamilton et al., arXiv 1706.02216, section 3.1), and exact scores layer by layer:
what a graph needs whose nodes do not all go through a step at once.

What is held is the graph's own arrays, which may be memory maps; a batch reads the rows of features of those nodes
alone that it has sampled.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

import pdl
from pdl.compressed import rows_of, transpose
from pdl.errors import ConfigError, TraceError
from pdl.nn import Module
from pdl.ops import CSR
from pdl.program.tracing import is_tracing
from pdl.program.tree import rebuild
from pdl.tensor import Tensor
from pdl_graph.batch import GraphBatch, SparseFeatures
from pdl_graph.features import take_rows
from pdl_graph.graph import Graph
from pdl_graph.models.base import GraphModel
from pdl_graph.models.layered import LayeredModel
from pdl_graph.neighbours import Block, Neighbours

PIECE_EDGES = 1 << 20  # edges of a piece of exact scores
_EDGE = ("edge_weight", "edge_attr", "edge_type")


class NeighbourSampler:
    """A graph, and blocks of it: the edges into some nodes from others, a graph for each layer of a net.

    seed      of what is sampled
    weighted  sample neighbours in proportion to the weights of edges
    replace   with replacement
    """

    def __init__(self, graph: Graph, *, seed: int = 0, weighted: bool = False, replace: bool = False) -> None:
        if weighted and graph.edge_weight is None:
            raise ConfigError("task.sampling: weighted, but the edges of the graph have no weights; leave it out")
        weights = graph.edge_weight if weighted else None
        self.graph, self.replace = graph, replace
        self.near = Neighbours(graph.indptr, graph.indices, weights=weights, seed=seed)

    def blocks(self, nodes: np.ndarray, fanouts: Sequence[int], *, epoch: int, step: int) -> list[GraphBatch]:
        """What `LayeredModel.forward` takes for these nodes (each once), of so many neighbours in each hop; the first
        has the features of the sampled nodes, or their numbers where nodes have none."""
        found = self.near.blocks(nodes, fanouts, epoch=epoch, step=step, replace=self.replace)
        return [self.read(block, features=layer == 0) for layer, block in enumerate(found)]

    def read(self, block: Block, *, features: bool) -> GraphBatch:
        """A block with the features of its edges, and on request of its nodes."""
        edge: dict[str, Any] = {
            name: None if getattr(self.graph, name) is None else getattr(self.graph, name)[block.edges]
            for name in _EDGE
        }
        x = self.features(block.nodes) if features else None
        kind = None if self.graph.node_type is None else self.graph.node_type[block.nodes]
        return GraphBatch(pattern(block), x, node_type=kind, **edge)

    def features(self, nodes: np.ndarray) -> Any:
        """Of these nodes; their numbers where there are none."""
        return nodes.astype(np.int64) if self.graph.x is None else gathered(self.graph.x, nodes)

    # -- exact scores --------------------------------------------------------------------------------------------------
    def scores(self, model: LayeredModel, nodes: np.ndarray, *, num_layers: int | None = None) -> Tensor:
        """Scores of these nodes with all their neighbours, [B, num_classes]: layer by layer, each for the nodes that
        the next ones read, a piece of these at a time, so no node is computed twice and no layer's edges stand in
        memory at once. With `num_layers` what so many of the layers make of the nodes."""
        wanted = self._wanted(nodes, model.num_layers if num_layers is None else num_layers)
        known, place = None, None
        for layer, wanted_nodes in enumerate(wanted):
            parts = [self._piece(model, layer, piece, known, place) for piece in self._pieces(wanted_nodes)]
            known = parts[0] if len(parts) == 1 else np.concatenate(parts)
            place = np.empty(self.graph.num_nodes, np.int32)
            place[wanted_nodes] = np.arange(len(wanted_nodes), dtype=np.int32)
        assert known is not None
        assert place is not None
        return pdl.as_tensor(known[place[nodes]])

    def _piece(
        self, model: LayeredModel, layer: int, nodes: np.ndarray, known: np.ndarray | None, place: np.ndarray | None
    ) -> np.ndarray:
        (block,) = self.near.blocks(nodes, (-1,))
        x = self.features(block.nodes) if known is None or place is None else gathered(known, place[block.nodes])
        graph = rebuild(self.read(block, features=False), pdl.as_tensor)
        y: np.ndarray = model.layer(layer, graph, rebuild(x, pdl.as_tensor)).data
        return y

    def _wanted(self, nodes: np.ndarray, num_layers: int) -> list[np.ndarray]:
        """For each layer the nodes that it must know, ascending."""
        wanted_nodes = np.unique(nodes).astype(np.int32)
        found = [wanted_nodes]
        for _ in range(num_layers - 1):
            if len(wanted_nodes) < self.graph.num_nodes:
                flags = np.zeros(self.graph.num_nodes, bool)
                flags[wanted_nodes] = True
                for piece in self._pieces(wanted_nodes):
                    flags[self.near.blocks(piece, (-1,))[0].nodes] = True
                wanted_nodes = np.flatnonzero(flags).astype(np.int32)
            found.insert(0, wanted_nodes)
        return found

    def _pieces(self, nodes: np.ndarray) -> Iterator[np.ndarray]:
        """These nodes in pieces with about PIECE_EDGES edges."""
        total = np.cumsum(self.near.degrees[nodes] + 1)
        cuts = np.searchsorted(total, np.arange(PIECE_EDGES, int(total[-1]), PIECE_EDGES))
        return (piece for piece in np.split(nodes, np.unique(cuts)) if len(piece))


def check_layers(model: GraphModel, fanouts: Sequence[int]) -> None:
    """Raise ConfigError where a net cannot be trained on sampled neighbourhoods with so many neighbours in each hop."""
    name = type(model).__name__
    if not isinstance(model, LayeredModel):
        raise ConfigError(
            f"task.neighbours: {name} reads one graph in all its layers; use a pdl_graph.LayeredModel such as "
            "GraphSAGE or RGCN, or leave it out and train on the whole graph"
        )
    if len(fanouts) != model.num_layers:
        raise ConfigError(
            f"task.neighbours: {len(fanouts)} numbers for the {model.num_layers} layers of {name}; give one for each"
        )


def one_by_one(model: Module, blocks: Sequence[GraphBatch]) -> Tensor:
    """Scores from sampled blocks. No two batches have the same shapes, so a program would serve only one: what
    compiling would save is less than padding costs."""
    if is_tracing():
        raise TraceError("sampled neighbourhoods have another shape in every batch", "task.neighbours")
    scores: Tensor = model(rebuild(list(blocks), pdl.as_tensor))
    return scores


def pattern(block: Block) -> CSR:
    """The edges of a block."""
    columns = len(block.nodes)
    return CSR(
        block.indptr, block.indices, rows_of(block.indptr), *transpose(block.indptr, block.indices, columns)
    )  # fmt: skip


def gathered(x: Any, nodes: np.ndarray) -> Any:
    """Rows of features, dense or sparse."""
    if isinstance(x, SparseFeatures):
        return take_rows(x, nodes)
    if not (x.flags.c_contiguous and x.dtype == np.float32):
        return np.asarray(x[nodes], np.float32)
    return pdl.segment_take(pdl.as_tensor(np.asarray(x)), pdl.as_tensor(nodes)).data
