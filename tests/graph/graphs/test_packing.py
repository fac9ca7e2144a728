"""Batches cut out of packed graphs are what joining the graphs by hand gives."""

from __future__ import annotations

import numpy as np

from pdl.ops import CSR
from pdl_graph import Graph
from pdl_graph.graphs.packing import Packed
from tests.graph.graphs.samples import random_graph


def test_a_batch_is_the_graphs_side_by_side() -> None:
    rng = np.random.default_rng(0)
    graphs = [random_graph(rng, nodes, edge_features=2) for nodes in (6, 1, 9, 3)]
    graphs = [graph.with_(edge_weight=rng.random(graph.num_edges, np.float32)) for graph in graphs]
    packed = Packed(graphs)
    for ids in ([2, 0, 3], [1], [3, 3, 1, 0, 2]):
        chosen = [graphs[i] for i in ids]
        start = np.cumsum([0] + [graph.num_nodes for graph in chosen])
        source = np.concatenate([graph.indices + at for graph, at in zip(chosen, start, strict=False)])
        target = np.concatenate([graph.targets + at for graph, at in zip(chosen, start, strict=False)])
        batch = packed.take(ids)
        expected, order = CSR.from_coo(target, source, (start[-1], start[-1]))
        assert order.tolist() == list(range(len(source)))
        for name in ("indptr", "indices", "row", "t_indptr", "t_indices", "t_edges"):
            held, wanted = getattr(batch.adjacency, name), getattr(expected, name)
            assert held.tolist() == wanted.tolist(), name
            assert held.dtype == wanted.dtype
        assert batch.graph.tolist() == [k for k, graph in enumerate(chosen) for _ in range(graph.num_nodes)]
        assert batch.num_graphs == len(ids)
        assert np.array_equal(batch.x, np.concatenate([graph.x for graph in chosen]))
        assert np.array_equal(batch.edge_attr, np.concatenate([graph.edge_attr for graph in chosen]))
        assert np.array_equal(batch.edge_weight, np.concatenate([graph.edge_weight for graph in chosen]))


def test_a_graph_without_edges() -> None:
    lone = Graph.from_edges(np.empty(0, np.int64), np.empty(0, np.int64), 2, x=np.ones((2, 3), np.float32))
    batch = Packed([lone, random_graph(np.random.default_rng(1))]).take([0, 1, 0])
    assert batch.num_nodes == 10
    assert batch.adjacency.indptr[:3].tolist() == [0, 0, 0]
