"""Orders of nodes: every node once, components whole, neighbours close where an order puts them close."""

from __future__ import annotations

from collections import Counter

import numpy as np
from hypothesis import given

from pdl_graph import Graph
from tests.graph.data.graphs import graphs


def apart(graph: Graph) -> int:
    """How far the ends of an edge are from one another at the most."""
    source, target = (np.asarray(ends, np.int64) for ends in graph.edges())
    return int(np.abs(source - target).max(initial=0))


def shuffled(graph: Graph) -> Graph:
    return graph.subgraph(np.random.default_rng(1).permutation(graph.num_nodes))


@given(graphs())
def test_an_order_has_every_node_once_and_keeps_the_edges(graph: Graph) -> None:
    made, order = graph.reordered()
    assert sorted(order.tolist()) == list(range(graph.num_nodes))
    ends = zip(*(order[ids].tolist() for ids in made.edges()), strict=True)
    assert Counter(ends) == Counter(zip(*(ids.tolist() for ids in graph.edges()), strict=True))
    parts = graph.components()[order]
    assert (np.diff(parts) != 0).sum() + 1 == len(set(parts.tolist())) or graph.num_nodes == 0


def test_a_path_has_its_neighbours_side_by_side() -> None:
    path = shuffled(Graph.from_edges(np.arange(99), np.arange(1, 100), 100, directed=False))
    assert apart(path) > 50
    assert apart(path.reordered()[0]) == 1


def test_a_directed_path_is_ordered_as_if_it_went_both_ways() -> None:
    path = shuffled(Graph.from_edges(np.arange(99), np.arange(1, 100), 100))
    assert apart(path.reordered()[0]) == 1


def test_a_grid_is_as_far_apart_as_its_shorter_side() -> None:
    number = np.arange(40 * 9).reshape(40, 9)
    across, down = (number[:, :-1], number[:, 1:]), (number[:-1], number[1:])
    source, target = (np.concatenate([a.ravel(), b.ravel()]) for a, b in zip(across, down, strict=True))
    grid = shuffled(Graph.from_edges(source, target, 360, directed=False))
    assert apart(grid) > 300
    assert apart(grid.reordered()[0]) <= 9 + 1
