"""Typed graphs: as one graph and back, reverse relations, what does not fit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdl.data import DataFault
from pdl.errors import UsageError
from pdl_graph import HeteroGraph
from pdl_graph.features import dense

NODES = {"author": 2, "paper": 3}
EDGES = {("author", "writes", "paper"): [[0, 1, 1], [0, 1, 2]], ("paper", "cites", "paper"): [[2, 2], [0, 1]]}


def small(**fields: Any) -> HeteroGraph:
    return HeteroGraph(**{"num_nodes": NODES, "edges": {k: np.array(v) for k, v in EDGES.items()}, **fields})


def test_as_one_graph() -> None:
    x = {"author": np.array([[1.0], [2.0]]), "paper": np.arange(1, 7).reshape(3, 2)}
    masks = {"paper": {"train": np.array([True, False, True])}}
    made = small(x=x, y={"paper": np.array([0, 1, 1])}, masks=masks, classes={"paper": ["a", "b"]})
    graph = made.to_homogeneous()
    ends = [end.tolist() for end in graph.edges()]
    assert ends == [[0, 4, 1, 4, 1], [2, 2, 3, 3, 4]]
    assert (graph.edge_type.tolist(), graph.node_type.tolist()) == ([0, 1, 0, 1, 0], [0, 0, 1, 1, 1])
    assert dense(graph.x).tolist() == [[1, 0, 0], [2, 0, 0], [0, 1, 2], [0, 3, 4], [0, 5, 6]]
    assert (graph.y.tolist(), graph.classes) == ([-1, -1, 0, 1, 1], ["a", "b"])
    assert graph.masks["train"].tolist() == [False, False, True, False, True]
    assert made.nodes("paper", [2]).tolist() == [4]


@given(st.integers(0, 999))
def test_there_and_back(seed: int) -> None:
    rng = np.random.default_rng(seed)
    nodes = {"a": int(rng.integers(1, 5)), "b": int(rng.integers(1, 5))}
    relations = [("a", "r", "b"), ("b", "s", "a"), ("b", "t", "b")]
    edges = {(s, r, t): rng.integers(0, [[nodes[s]], [nodes[t]]], (2, 4)) for s, r, t in relations}
    weight = {relation: rng.random(4).astype(np.float32) for relation in edges}
    made = HeteroGraph(nodes, edges, y={"b": rng.integers(0, 3, nodes["b"])}, weight=weight)
    back = HeteroGraph.from_homogeneous(made.to_homogeneous(), made.node_types, [r for _, r, _ in made.relations])
    assert (back.num_nodes, sorted(back.edges)) == (nodes, sorted(edges))
    for relation, ends in edges.items():
        rows = [sorted(map(tuple, np.stack([*g.edges[relation], g.weight[relation]], 1))) for g in (made, back)]
        assert rows[0] == rows[1]
        assert ends.shape == (2, 4)
    assert back.y["b"].tolist() == made.y["b"].tolist()


def test_reverses() -> None:
    both = small().with_reverses()
    assert both.relations[2:] == [("paper", "rev_writes", "author"), ("paper", "rev_cites", "paper")]
    assert both.edges["paper", "rev_writes", "author"].tolist() == [[0, 1, 2], [0, 1, 1]]
    with pytest.raises(UsageError, match="choose another prefix"):
        both.with_reverses("")


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"x": {"book": np.ones((1, 1))}}, "x speaks of nodes 'book'; types are author, paper"),
        ({"x": {"paper": np.ones((2, 1))}}, "x of 'paper' has 2 rows for 3 nodes"),
        ({"edges": {("author", "writes", "paper"): np.array([[2], [0]])}}, "edge 0 of .* joins author 2, one of 2"),
        ({"edges": {("author", "writes", "book"): np.array([[0], [0]])}}, "join nodes 'book'"),
        ({"edges": {("author", "writes", "paper"): np.array([0, 1])}}, r"have shape \(2,\)"),
        ({"edges": {("author", "writes", "paper"): np.array([[0.5], [0]])}}, "are float64; number the nodes of"),
        ({"edges": {("author", "paper"): np.array([[0], [0]])}}, "are of no relation"),
        ({"weight": {("paper", "cites", "paper"): np.ones(3)}}, "weights differ in number"),
        ({"weight": {("paper", "cited", "paper"): np.ones(3)}}, "no such edges"),
        ({"masks": {"paper": {"train": np.ones(2, bool)}}}, "the mask 'train' of 'paper' has 2 rows for 3 nodes"),
        ({"num_nodes": {"author": 2, "paper": -3}}, "num_nodes of 'paper' is -3"),
    ],
)
def test_faults(fields: dict[str, Any], match: str) -> None:
    with pytest.raises(DataFault, match=match):
        small(**fields)


def test_whose_labels() -> None:
    made = small(y={"author": np.zeros(2, int), "paper": np.zeros(3, int)})
    with pytest.raises(UsageError, match="say whose with target="):
        made.to_homogeneous()
    assert made.to_homogeneous("author").y.tolist() == [0, 0, -1, -1, -1]
    with pytest.raises(UsageError, match="nodes 'book' have no labels"):
        made.to_homogeneous("book")
