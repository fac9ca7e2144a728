"""Generated graphs: what the settings promise, and that neighbourhoods tell the classes."""

from __future__ import annotations

import numpy as np

from pdl_graph.data import PowerLaw

SIZES = {"nodes": 6000, "edges": 120_000, "classes": 8}


def test_sizes_splits_and_sharing() -> None:
    train, test = (PowerLaw(split, **SIZES, seed=1) for split in ("train", "test"))
    graph = train.graph
    assert test.graph is graph
    assert graph.num_nodes == 6000
    assert graph.num_edges == 120_000
    assert not graph.directed
    assert (len(train), len(test)) == (600, 120)
    assert not set(train.nodes) & set(test.nodes)
    source, target = graph.edges()
    assert (source != target).all()
    pairs = set(zip(source.tolist(), target.tolist(), strict=True))
    assert pairs == {(b, a) for a, b in pairs}
    np.testing.assert_array_equal(np.bincount(graph.y), 750)


def test_another_seed_is_another_graph() -> None:
    graphs = [PowerLaw(None, **SIZES, seed=seed).graph for seed in (1, 2)]
    assert graphs[0].fingerprint != graphs[1].fingerprint


def test_degrees_follow_the_power_law() -> None:
    """Of a Chung-Lu graph the share of nodes with degree above d falls as d^(1 - exponent), above the mean."""
    degree = PowerLaw(None, nodes=50_000, edges=1_000_000, features=1, exponent=2.5, seed=0).graph.in_degree()
    low, high = ((degree > d).mean() for d in (30, 300))
    assert 1.35 < np.log10(low / high) < 1.65
    assert degree.max() > 100 * np.median(degree)


def test_neighbours_tell_the_class_and_a_node_alone_does_not() -> None:
    graph = PowerLaw("train", **SIZES, seed=1).graph
    source, target = graph.edges()
    same = (graph.y[source] == graph.y[target]).mean()
    assert abs(same - (0.6 + 0.4 / 8)) < 0.02
    around = np.zeros_like(graph.x)
    np.add.at(around, target, graph.x[source])
    around /= np.maximum(graph.in_degree(), 1)[:, None]
    centre = np.stack([graph.x[graph.y == k].mean(0) for k in range(8)])
    own, near = (((x @ centre.T).argmax(1) == graph.y).mean() for x in (graph.x, around))
    assert own < 0.55
    assert near > own + 0.25
