"""Graphs: made, cut, merged, reversed, counted, and kept on disk; properties over drawn graphs, and faults."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdl.data import DataFault
from pdl.errors import UsageError
from pdl_graph import Graph, batch_graphs, sparse_features
from pdl_graph.features import dense
from tests.graph.data.graphs import content, graphs, same

EDGE = ("edge_weight", "edge_attr", "edge_type")


def edges(graph: Graph, name: Any = lambda i: i) -> Counter[tuple[Any, ...]]:
    """How often each edge is there, with all that is known of it."""
    about = [getattr(graph, k).tolist() for k in EDGE if getattr(graph, k) is not None]
    ends = [[name(i) for i in each.tolist()] for each in graph.edges()]
    return Counter((a, b, str(more)) for a, b, *more in zip(*ends, *about, strict=True))


@given(graphs())
def test_edges_are_sorted_and_undirected_ones_stand_both_ways(graph: Graph) -> None:
    source, target = graph.edges()
    key = target.astype(np.int64) * graph.num_nodes + source
    assert (np.diff(key) >= 0).all()
    if not graph.directed:
        assert edges(graph) == Counter({(b, a, more): n for (a, b, more), n in edges(graph).items()})
        assert len(graph.once()) * 2 == graph.num_edges + int((source == target).sum())


@given(graphs())
def test_reversed_twice_is_the_same(graph: Graph) -> None:
    back = graph.reversed()
    assert edges(back) == Counter({(b, a, more): n for (a, b, more), n in edges(graph).items()})
    assert edges(back.reversed()) == edges(graph)


@given(graphs(), st.integers(0, 99))
def test_subgraph_keeps_the_edges_among_its_nodes(graph: Graph, seed: int) -> None:
    rng = np.random.default_rng(seed)
    nodes = rng.permutation(graph.num_nodes)[: rng.integers(0, graph.num_nodes + 1)]
    cut, chosen = graph.subgraph(nodes), set(nodes.tolist())
    wanted = Counter({edge: n for edge, n in edges(graph).items() if edge[0] in chosen and edge[1] in chosen})
    assert edges(cut, lambda i: int(nodes[i])) == wanted
    for name in ("y", "node_type"):
        if (held := getattr(graph, name)) is not None:
            assert getattr(cut, name).tolist() == held[nodes].tolist()
    if graph.x is not None:
        np.testing.assert_array_equal(dense(cut.x), dense(graph.x)[nodes])
    assert list(cut.names) == [graph.names[i] for i in nodes] if graph.names else cut.names == ()


@given(graphs())
def test_coalesce_adds_up_and_is_done_once(graph: Graph) -> None:
    once = graph.coalesce("sum")
    keys = [(a, b, t) for a, b, t in zip(*graph.edges(), _types(graph), strict=True)]
    assert once.num_edges == len(set(keys))
    assert once.coalesce().num_edges == once.num_edges
    if graph.edge_weight is not None:
        total: Counter[Any] = Counter()
        for key, weight in zip(keys, graph.edge_weight.tolist(), strict=True):
            total[key] += weight
        found = zip(*once.edges(), _types(once), strict=True)
        assert dict(zip(found, once.edge_weight.tolist(), strict=True)) == dict(total)
    assert once.describe()["duplicate edges"] == 0 or graph.edge_type is not None


@given(graphs(), st.sampled_from(["sum", "max", "first"]))
def test_both_directions_of_an_edge_stay_alike(graph: Graph, merge: Any) -> None:
    made = edges(graph.undirected(merge) if graph.directed else graph.coalesce(merge))
    assert made == Counter({(b, a, more): n for (a, b, more), n in made.items()})


def _types(graph: Graph) -> Any:
    return np.zeros(graph.num_edges, int) if graph.edge_type is None else graph.edge_type


@pytest.mark.parametrize(("merge", "weight"), [("sum", 6), ("mean", 3), ("max", 4), ("min", 2), ("first", 4)])
def test_merges(merge: Any, weight: float) -> None:
    made = Graph.from_edges([0, 0], [1, 1], edge_weight=[4, 2], edge_attr=[[4], [2]]).coalesce(merge)
    assert (made.edge_weight.tolist(), made.edge_attr.tolist()) == ([weight], [[weight]])


@given(graphs())
def test_self_loops(graph: Graph) -> None:
    without, every = graph.without_self_loops(), graph.with_self_loops()
    assert edges(without) == Counter({e: n for e, n in edges(graph).items() if e[0] != e[1]})
    assert every.describe()["self-loops"] == graph.num_nodes
    assert edges(every.without_self_loops()) == edges(without)


@given(graphs())
def test_undirected_has_every_pair_both_ways_once(graph: Graph) -> None:
    made = graph.undirected()
    pairs = set(zip(*(e.tolist() for e in graph.edges()), strict=True))
    assert not made.directed
    assert set(zip(*(e.tolist() for e in made.edges()), strict=True)) == pairs | {(b, a) for a, b in pairs}


@given(st.lists(graphs(), min_size=1, max_size=4))
def test_a_batch_is_its_graphs_side_by_side(several: list[Graph]) -> None:
    plain = [g.with_(x=None, node_type=None, **dict.fromkeys(EDGE)) for g in several]
    batch = batch_graphs(plain)
    starts = np.cumsum([0, *(g.num_nodes for g in plain)])
    ends = [np.stack(g.edges()) + start for g, start in zip(plain, starts, strict=False)]
    one = Graph.from_edges(*np.concatenate(ends, 1), num_nodes=int(starts[-1])).adjacency  # type: ignore[misc]
    for name in ("indptr", "indices", "row", "t_indptr", "t_indices", "t_edges"):
        found, wanted = getattr(batch.adjacency, name), getattr(one, name)
        assert (found.dtype, found.tolist()) == (wanted.dtype, wanted.tolist()), name
    assert batch.graph.tolist() == [i for i, g in enumerate(plain) for _ in range(g.num_nodes)]
    assert batch.num_graphs == len(several)


@pytest.mark.parametrize("kinds", [("dense", "dense"), ("sparse", "dense"), ("sparse", "sparse")])
def test_features_of_a_batch(kinds: tuple[str, str]) -> None:
    tables = [np.array([[1, 0], [0, 2]], np.float32), np.array([[0, 3]], np.float32)]
    held = [sparse_features(t) if kind == "sparse" else t for t, kind in zip(tables, kinds, strict=True)]
    batch = batch_graphs([Graph.from_edges([0], [0], x.shape[0], x=x) for x in held])
    np.testing.assert_array_equal(dense(batch.x), np.concatenate(tables))


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"x": np.ones((1, 3))}, r"3 and 2 features|2 and 3 features"),
        ({"x": None}, "none and|and none"),
        ({"edge_weight": [1.0]}, "graph 0 of a batch has no edge_weight, graph 1 has"),
    ],
)
def test_graphs_of_a_batch_must_fit(fields: dict[str, Any], match: str) -> None:
    one = Graph.from_edges([0], [0], 1, x=np.ones((1, 2)))
    with pytest.raises(DataFault, match=match):
        batch_graphs([one, Graph.from_edges([0], [0], 1, **{"x": np.ones((1, 2)), **fields})])


def test_describe() -> None:
    graph = Graph.from_edges([0, 0, 2, 5, 6], [1, 1, 2, 6, 7], 9, directed=False)
    assert graph.describe() == {
        "nodes": 9, "edges": 5, "components": 6, "largest component": 3, "isolated nodes": 3, "self-loops": 1,
        "duplicate edges": 1, "largest degree": 2, "features": 0, "classes": 0,
    }  # fmt: skip


@given(graphs(max_nodes=30))
def test_components_are_those_of_a_search(graph: Graph) -> None:
    near: dict[int, set[int]] = {i: set() for i in range(graph.num_nodes)}
    for a, b in zip(*(e.tolist() for e in graph.edges()), strict=True):
        near[a].add(b)
        near[b].add(a)
    root = [-1] * graph.num_nodes
    for i in range(graph.num_nodes):
        stack = [i] if root[i] < 0 else []
        while stack:
            if root[j := stack.pop()] < 0:
                root[j] = i
                stack += near[j]
    assert graph.components().tolist() == root


# -- other libraries, and disk -----------------------------------------------------------------------------------------
@given(graphs())
def test_scipy_and_back(graph: Graph) -> None:
    pytest.importorskip("scipy.sparse")
    plain = Graph(graph.indptr, graph.indices, edge_weight=graph.edge_weight, directed=graph.directed).coalesce()
    matrix = plain.to_scipy()
    weighted = graph.edge_weight is not None
    same(Graph.from_scipy(matrix, directed=graph.directed, weighted=weighted), plain)
    source, target = plain.edges()
    assert (matrix.toarray()[source, target] == (plain.edge_weight if weighted else 1)).all()


def test_scipy_must_be_symmetric_for_an_undirected_graph() -> None:
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(DataFault, match=r"entry \[0, 1\] is not entry \[1, 0\]"):
        Graph.from_scipy(sparse.csr_matrix([[0, 1], [0, 0]]), directed=False)


@given(graphs())
def test_networkx_and_back(graph: Graph) -> None:
    pytest.importorskip("networkx")
    there = graph.to_networkx()
    about: dict[str, Any] = {
        "features": ["x"] if graph.x is not None else [],
        "label": None if graph.y is None else "y",
    }
    more = ["attr"] if graph.edge_attr is not None and graph.num_edges else []
    back = Graph.from_networkx(there, edge_features=more, **about)
    # in networkx repeated edges between two nodes have no order
    assert edges(back) == edges(graph.with_(edge_type=None))
    assert content(back.with_(edge_weight=None, edge_attr=None)) == content(
        graph.with_(masks={}, **dict.fromkeys(EDGE))
    )


def test_networkx_faults() -> None:
    nx = pytest.importorskip("networkx")
    made = nx.Graph()
    made.add_node("a", size=1.0)
    made.add_edge("a", "b")
    with pytest.raises(DataFault, match="node 'b' has no attribute 'size'"):
        Graph.from_networkx(made, features=["size"])
    made.nodes["b"]["size"] = "tall"
    with pytest.raises(DataFault, match="'size' of nodes is no number"):
        Graph.from_networkx(made, features=["size"])
    with pytest.raises(UsageError, match="takes a networkx graph, not list"):
        Graph.from_networkx([("a", "b")])


def test_networkx_labels() -> None:
    nx = pytest.importorskip("networkx")
    made = nx.path_graph(3)
    for labels, y in (
        ([2, None, 0], [2, -1, 0]), (["b", None, "a"], [1, -1, 0]), ([0.5, None, 1], [[0.5], [None], [1]]),
    ):  # fmt: skip
        nx.set_node_attributes(made, dict(enumerate(labels)), "label")
        found = Graph.from_networkx(made, label="label").y
        assert np.where(np.isnan(found), None, found).tolist() == y


@given(graph=graphs())
def test_saved_and_opened(graph: Graph, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("store") / "g"
    graph.save(folder)
    again = Graph.open(graph.save(folder))
    same(again, graph)
    assert again.fingerprint == graph.fingerprint
    if graph.num_edges:
        assert isinstance(again.indices, np.memmap)


def small(folder: Path) -> Path:
    y = np.array([0, 1, -1])
    return Graph.from_edges([0, 1], [1, 2], x=np.eye(3), y=y, masks={"train": y == 0}).save(folder / "g")


@pytest.mark.parametrize(
    ("damage", "match"),
    [
        (lambda f: (f / "graph.json").unlink(), "no such file"),
        (lambda f: (f / "graph.json").write_text("{"), "no readable header"),
        (lambda f: (f / "graph.json").write_text("{}"), "no header of a graph"),
        (lambda f: _header(f, format=9), "format 9"),
        (lambda f: _header(f, arrays={}), "no array 'indices'"),
        (lambda f: _arrays(f, **{"../x": {}}), "graphs do not have"),
        (lambda f: (f / "x.npy").unlink(), "no such file"),
        (lambda f: (f / "x.npy").write_bytes(b"\x93NUMPY"), "is damaged"),
        (lambda f: (f / "x.npy").write_bytes((f / "x.npy").read_bytes()[:-8]), "is damaged"),
        (lambda f: np.save(f / "x.npy", np.eye(2, dtype=np.float32)), "the header says"),
        (lambda f: np.save(f / "indices.npy", np.array([0, 3], np.int32)), "entry 1 names 3 of 3"),
        (lambda f: np.save(f / "indptr.npy", np.array([0, 2, 1, 2])), "where rows begin"),
        (lambda f: np.save(f / "y.npy", np.array([0, 1, -1], object)), "is damaged"),
    ],
)
def test_damaged_stores_are_told(tmp_path: Path, damage: Any, match: str) -> None:
    folder = small(tmp_path)
    damage(folder)
    with pytest.raises(DataFault, match=match) as error:
        Graph.open(folder)
    assert str(folder) in str(error.value)


def _header(folder: Path, **changes: Any) -> None:
    header = json.loads((folder / "graph.json").read_text())
    (folder / "graph.json").write_text(json.dumps({**header, **changes}))


def _arrays(folder: Path, **changes: Any) -> None:
    _header(folder, arrays={**json.loads((folder / "graph.json").read_text())["arrays"], **changes})


def test_save_replaces_graphs_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    with pytest.raises(UsageError, match="holds no graph"):
        Graph.from_edges([0], [0]).save(tmp_path / "mine")
    with pytest.raises(UsageError, match="the mask 'a/b'"):
        Graph.from_edges([0], [0], masks={"a/b": [True]}).save(tmp_path / "other")


def test_saved_as_the_fields_are_told(tmp_path: Path) -> None:
    graph = Graph.from_edges([0], [1]).with_(x=np.ones((2, 2)), names=[(0, 1), (2, 3, 4)])
    again = Graph.open(graph.save(tmp_path / "g"))
    assert (again.x.dtype, list(again.names)) == (np.float32, ["(0, 1)", "(2, 3, 4)"])


# -- faults ------------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("source", "target", "fields", "match"),
    [
        ([0, 1], [1, 5], {}, "edge 1 joins 1 and 5, but the graph has 3 nodes"),
        ([0, -1], [1, 1], {}, "edge 1 joins -1 and 1"),
        ([0], [1, 2], {}, "two columns of one length"),
        ([0.5], [1.0], {}, "whole numbers"),
        ([0], [1], {"x": np.ones((2, 4))}, "x has 2 rows for 3 nodes"),
        ([0], [1], {"y": np.zeros(4, int)}, "y has 4 rows for 3 nodes"),
        ([0], [1], {"edge_weight": [1, 2]}, "edge_weight has 2 rows for 1 edges"),
        ([0], [1], {"masks": {"train": [True]}}, r"mask 'train' has shape \(1,\) for 3 nodes"),
        ([0], [1], {"names": ["a"]}, "1 names for 3 nodes"),
        (["a"], ["b"], {}, "whole numbers"),
        ([0], [1], {"x": np.ones(3)}, r"x has shape \(3,\)"),
        ([0], [1], {"x": [["a"], ["b"], ["c"]]}, "x is no array of numbers"),
        ([0], [1], {"y": ["a", "b", "c"]}, "y holds <U1"),
        ([0], [1], {"y": [0, 1, -2]}, "y has the class -2"),
        ([0], [1], {"edge_weight": [[1]]}, r"edge_weight has shape \(1, 1\)"),
        ([0], [1], {"edge_type": [0.5]}, "edge_type has numbers that are not whole"),
        ([0], [1], {"masks": {"train": [0, 2, 1]}}, "the mask 'train' holds int64 that are not 0 or 1"),
    ],
)
def test_what_does_not_fit_is_told(source: Any, target: Any, fields: dict[str, Any], match: str) -> None:
    with pytest.raises(DataFault, match=match):
        Graph.from_edges(source, target, 3, **fields)


@pytest.mark.parametrize("ids", [[0.0, np.nan], [0, 2**40], [0, 2**31 - 2]])
def test_ids_that_number_no_nodes(ids: list[Any]) -> None:
    """Not to be numbered, or numbers (hashes) far above the number of edges, which would fill the memory."""
    with pytest.raises(DataFault, match=r"whole numbers|number the nodes anew"):
        Graph.from_edges(ids, [1, 1])


def test_ids_without_a_sign() -> None:
    made = Graph.from_edges(np.array([0, 255], np.uint8), np.array([1, 2], np.uint64), edge_weight=[1, 2])
    assert (made.num_nodes, made.edges()[0].tolist()) == (256, [0, 255])


@given(graphs(), st.integers(0, 99))
def test_some_of_the_edges(graph: Graph, seed: int) -> None:
    keep = np.random.default_rng(seed).random(graph.num_edges) < 0.5
    cut = graph.with_edges(keep)
    by_id = graph.with_edges(np.flatnonzero(keep).tolist())
    same(cut, by_id)
    listed = [list(edges(g).elements()) for g in (graph, cut)]
    assert cut.num_edges == keep.sum()
    assert not Counter(listed[1]) - Counter(listed[0])


@pytest.mark.parametrize(
    ("nodes", "match"),
    [([0, 3], "node 3 of 3"), ([0, 0], "named twice"), ([0.5], "give ids, or a mask of 3"), ([True], "a mask of 3")],
)
def test_subgraph_of_other_nodes(nodes: list[int], match: str) -> None:
    with pytest.raises(UsageError, match=match):
        Graph.from_edges([0], [1], 3).subgraph(nodes)
