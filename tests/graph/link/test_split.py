"""Edges split into those to learn from and those to be found: nothing is lost, known twice, or told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdl.errors import ConfigError, DataError
from pdl_graph import Graph
from pdl_graph.data import EdgeSplit
from pdl_graph.data.pairs import edge_keys, keys_of, member, non_edges
from pdl_graph.link.loader import TrainingPairs

SPLITS = ("train", "val", "test")


def random_graph(n: int, edges: int, *, directed: bool = False, seed: int = 0) -> Graph:
    rng = np.random.default_rng(seed)
    source, target = rng.integers(0, n, (2, edges))
    return Graph.from_edges(source, target, n, directed=directed, edge_weight=rng.random(edges).astype(np.float32))


def keys(split: EdgeSplit, label: int) -> np.ndarray:
    pairs = split.pairs[split.targets == label]
    return keys_of(pairs[:, 0], pairs[:, 1], split.whole.num_nodes, directed=split.whole.directed)


@given(st.booleans(), st.integers(0, 5), st.sampled_from([0.0, 0.1, 0.3]), st.booleans())
def test_every_edge_is_in_one_split_and_only_those_of_training_carry_messages(
    directed: bool, seed: int, val: float, kept: bool
) -> None:
    graph = random_graph(40, 200, directed=directed, seed=seed)  # with repeated edges and edges of nodes to themselves
    about: dict[str, Any] = {"val": val, "test": 0.2, "seed": seed, "val_messages": kept}
    splits = {name: EdgeSplit(graph, name, **about) for name in SPLITS if val or name != "val"}  # type: ignore[arg-type]
    ones = {name: keys(split, 1) for name, split in splits.items()}
    assert np.array_equal(np.sort(np.concatenate(list(ones.values()))), edge_keys(graph))
    sent = [ones[name] for name in ones if name == "train" or (name == "val" and kept)]
    message = splits["train"].graph
    assert np.array_equal(edge_keys(message), np.sort(np.concatenate(sent)))
    assert all(split.graph is message for split in splits.values())
    zeros = [keys(splits[name], 0) for name in splits if name != "train"]
    assert [len(z) for z in zeros] == [len(ones[name]) for name in splits if name != "train"]
    every = np.concatenate(zeros)
    assert len(np.unique(every)) == len(every)
    assert not member(edge_keys(graph), every).any()
    assert len(keys(splits["train"], 0)) == 0


def test_the_message_graph_keeps_what_is_known_of_its_edges() -> None:
    graph = random_graph(30, 120)
    message = EdgeSplit(graph, val=0.1, test=0.3).graph
    assert graph.edge_weight is not None
    assert message.edge_weight is not None
    known = set(zip(*map(np.ndarray.tolist, (*graph.edges(), graph.edge_weight)), strict=True))
    kept = set(zip(*map(np.ndarray.tolist, (*message.edges(), message.edge_weight)), strict=True))
    assert kept
    assert kept < known


def test_seeds_decide() -> None:
    graph = random_graph(50, 300)
    one, same, other = (EdgeSplit(graph, "test", seed=seed) for seed in (1, 1, 2))
    assert one.fingerprint == same.fingerprint != other.fingerprint


def _edges(split: EdgeSplit) -> np.ndarray:
    return split.pairs[split.targets == 1]


def test_a_connected_split_leaves_what_hangs_together() -> None:
    graph = random_graph(60, 150)
    whole, split = graph.components(), EdgeSplit(graph, "test", val=0.1, test=0.4, connected=True)
    np.testing.assert_array_equal(split.graph.components(), whole)
    assert split.targets.sum() == int(0.4 * len(edge_keys(graph)))
    assert not np.array_equal(EdgeSplit(graph, "test", val=0.1, test=0.4).graph.components(), whole)
    degree = graph.in_degree() + 0.0  # hidden first or last, edges are as likely to be in dense places
    means = {
        name: np.mean(
            [
                degree[keys_].prod(1).mean()
                for seed in range(40)
                for keys_ in [_edges(EdgeSplit(graph, name, seed=seed, val=0.25, test=0.25, connected=True))]
            ]
        )
        for name in ("val", "test")
    }
    assert abs(means["val"] / means["test"] - 1) < 0.03
    with pytest.raises(ConfigError, match="hold the graph together"):
        EdgeSplit(graph, "test", test=0.9, connected=True)


@given(st.integers(2, 12), st.floats(0, 1), st.booleans(), st.integers(0, 100))
def test_non_edges_are_all_pairs_without_an_edge(n: int, share: float, directed: bool, seed: int) -> None:
    rng = np.random.default_rng(seed)
    every = edge_keys(Graph.from_edges(*np.nonzero(~np.eye(n, dtype=bool)), n).with_(directed=directed))
    assert len(every) == n * (n - 1) // (1 if directed else 2)
    edges = np.sort(rng.choice(every, int(share * len(every)), replace=False))
    free = np.setdiff1d(every, edges)
    found = non_edges(edges, n, len(free), rng, directed=directed, distinct=True)
    assert np.array_equal(np.sort(found), free)
    if len(free):
        many = non_edges(edges, n, 20 * len(free), rng, directed=directed)
        assert len(many) == 20 * len(free)
        assert np.isin(many, free).all()
    with pytest.raises(DataError, match="ask for fewer"):
        non_edges(edges, n, len(free) + 1, rng, directed=directed, distinct=True)


def test_non_edges_of_a_large_graph_are_drawn_each_once() -> None:
    edges = edge_keys(random_graph(3000, 9000))
    found = non_edges(edges, 3000, 20000, np.random.default_rng(0), directed=False, distinct=True)
    assert len(np.unique(found)) == 20000
    assert not member(edges, found).any()


def test_others_of_training_are_new_in_each_epoch_and_no_edges_of_the_message_graph() -> None:
    split = EdgeSplit(random_graph(60, 300), "train", seed=3)
    pairs = TrainingPairs(split, 2, seed=5)
    seen = []
    for epoch in (0, 1, 0):
        pairs.set_epoch(epoch)
        batch = pairs.get_batch(np.arange(10, 30))
        assert batch["label"].sum() == 20
        assert len(batch["label"]) == 60
        assert np.array_equal(batch["pair"][:20], split.pairs[10:30])
        others = keys_of(batch["pair"][20:, 0], batch["pair"][20:, 1], 60, directed=False)
        assert not member(edge_keys(split.graph), others).any()
        seen.append(others.tolist())
    assert seen[0] == seen[2] != seen[1]


@pytest.mark.parametrize(
    ("settings", "error", "match"),
    [
        ({"split": "dev"}, ConfigError, "none of train, val, test"),
        ({"val": 0.5, "test": 0.5}, ConfigError, "leave no edge"),
        ({"split": "val", "val": 0.0}, DataError, "no edge of"),
        ({"split": "test", "negative_ratio": 1e4}, DataError, "ask for fewer"),
    ],
)
def test_what_cannot_be_split_is_refused(settings: dict[str, Any], error: type[Exception], match: str) -> None:
    with pytest.raises(error, match=match):
        EdgeSplit(random_graph(20, 80), **settings)
