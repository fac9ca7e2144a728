"""Graphs drawn by hypothesis, and how two of them are compared."""

from __future__ import annotations

from dataclasses import fields as fields_of
from typing import Any

import numpy as np
from hypothesis import strategies as st

from pdl_graph import Graph
from pdl_graph.features import dense, sparse_features


@st.composite
def graphs(draw: st.DrawFn, max_nodes: int = 9, directed: bool | None = None, simple: bool = False) -> Graph:
    """A graph with any of the fields; `simple`: no edge twice, none to itself."""
    n = draw(st.integers(1, max_nodes))
    pairs = draw(st.lists(st.tuples(st.integers(0, n - 1), st.integers(0, n - 1)), max_size=20))
    directed = draw(st.booleans()) if directed is None else directed
    if simple:
        pairs = sorted({(a, b) if directed else (min(a, b), max(a, b)) for a, b in pairs if a != b})
    ends = np.array(pairs, np.int64).reshape(-1, 2)
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    has = draw(
        st.sets(st.sampled_from(["x", "sparse", "y", "edge_weight", "edge_attr", "edge_type", "masks", "names"]))
    )
    x = rng.integers(-2, 3, (n, 3)).astype(np.float32)
    held: dict[str, Any] = {
        "x": sparse_features(x) if "sparse" in has else x,
        "y": rng.integers(-1, 3, n),
        "edge_weight": rng.integers(1, 9, len(ends)).astype(np.float32),
        "edge_attr": rng.integers(1, 9, (len(ends), 2)).astype(np.float32),
        "edge_type": rng.integers(0, 2, len(ends)),
        "masks": {"train": rng.random(n) < 0.5},
        "names": tuple(f"n{i}" for i in range(n)),
    }
    return Graph.from_edges(ends[:, 0], ends[:, 1], n, directed=directed, **{k: v for k, v in held.items() if k in has})


def content(graph: Graph) -> dict[str, Any]:
    """A graph as plain values."""
    held = {each.name: getattr(graph, each.name) for each in fields_of(graph)}
    held["x"] = dense(graph.x)
    held["names"], held["classes"] = [str(n) for n in graph.names], [str(c) for c in graph.classes]
    held["masks"] = {name: mask.tolist() for name, mask in graph.masks.items()}
    return {k: v.tolist() if isinstance(v, np.ndarray) else v for k, v in held.items()}


def same(a: Graph, b: Graph) -> None:
    """Both hold the same."""
    assert content(a) == content(b)
