"""Lists of edges: the same graph through each form, properties of the reader, lines with faults, the real files."""

from __future__ import annotations

import bz2
import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdl.data import DataFault, data_root
from pdl_graph import Graph
from pdl_graph.data import CaAstroPh, EdgeFile, LinkGraph, edge_text
from tests.graph.data.graphs import graphs, same

EDGES = [(0, 1), (0, 2), (2, 1), (3, 3)]
FORMS = {
    "tabs": ("a.txt", "# by hand\n0\t1\n0\t2\n2\t1\n3\t3\n"),
    "spaces": ("a.txt", "  0 1\n0   2 \n% more\n2 1\n# and more\n3 3"),
    "windows": ("a.txt", "0 1\r\n0 2\r\n\r\n2 1\r\n3 3\r\n"),
    "commas": ("a.csv", "0,1\n0, 2\n2,1\n3,3\n"),
    "gaps": ("a.txt", "\n\n0 1\n0 2\n\n2 1\n3 3\n\n"),
    "gzip": ("a.txt.gz", gzip.compress(b"0 1\n0 2\n2 1\n3 3\n")),
    "bzip2": ("a.txt.bz2", bz2.compress(b"0 1\n0 2\n2 1\n3 3\n")),
}


def written(folder: Path, name: str, content: str | bytes) -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_same_graph(tmp_path: Path, form: str, directed: bool) -> None:
    path = written(tmp_path, *FORMS[form])
    same(EdgeFile(path, directed=directed).graph, Graph.from_edges(*zip(*EDGES, strict=True), directed=directed))


@given(graph=graphs(simple=True), block=st.integers(1, 40))
def test_written_and_read_in_pieces(graph: Graph, block: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    plain = Graph(graph.indptr, graph.indices, edge_weight=graph.edge_weight, directed=graph.directed)
    source, target = (end[plain.once()].tolist() for end in plain.edges())
    weighted = plain.edge_weight is not None
    more = [f" {w:g}" for w in plain.edge_weight[plain.once()]] if weighted else [""] * len(source)
    lines = [f"{a} {b}{w}\n" for a, b, w in zip(source, target, more, strict=True)]
    path = written(tmp_path_factory.mktemp("edges"), "e.txt", "".join(lines))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(edge_text, "BLOCK", block)
        patch.setattr(edge_text, "STEP", block)
        if not lines:
            with pytest.raises(DataFault, match="has no edges"):
                EdgeFile(path)
            return
        found = EdgeFile(path, directed=plain.directed, weighted=weighted, num_nodes=plain.num_nodes).graph
        same(found, plain)
        named = EdgeFile(path, directed=plain.directed, weighted=weighted).graph
        spread = {0: 5, **{each: 2_000_000_000 + 7 * each for each in range(1, 99)}}
        path.write_text("".join(f"{spread[a]} {spread[b]}{w}\n" for a, b, w in zip(source, target, more, strict=True)))
        far = EdgeFile(path, directed=plain.directed, weighted=weighted).graph
    there = sorted({*source, *target})
    assert list(named.names) == ([] if there == list(range(len(there))) else there)
    same(named.with_(names=()), plain.subgraph(np.array(there)).with_(names=()))
    assert list(far.names) == [spread[each] for each in there]
    same(far.with_(names=()), named.with_(names=()))


def test_both_directions_in_the_file_are_one_edge(tmp_path: Path) -> None:
    path = written(tmp_path, "a.txt", "0 1\n1 0\n0 1\n1 2\n2 2\n")
    counts = {
        repeats: EdgeFile(path, directed=False, repeats=repeats, self_loops=loops).graph.describe()["edges"]
        for repeats, loops in (("drop", "keep"), ("keep", "drop"))
    }
    assert counts == {"drop": 3, "keep": 4}


@pytest.mark.parametrize(
    ("text", "how", "line", "match"),
    [
        ("0 1\n# c\n\n1 x\n", {}, 4, "'x' in '1 x' is no id"),
        ("0 1\n1 2 3\n", {}, 2, "'1 2 3' has 3 columns, not 2"),
        ("0 1\n,x 1\n", {}, 2, "',x 1' has 3 columns, not 2"),
        ("0 1\n1\n2 3 4\n", {}, 2, "'1' has 1 columns"),
        ("0 1 2\n3\n", {}, 1, "3 columns"),
        ("0 -1\n", {}, 1, "'-1' in '0 -1' is no id"),
        ("# c\n0 1\n\n0 3000000000\n", {}, 4, "an id in '0 3000000000' is beyond 2147483647"),
        ("0 1 1\n9 99999999999999999999 1\n", {"weighted": True}, 2, "is beyond 2147483647"),
        ("0 1 2\n", {}, 1, "or say weighted=True"),
        ("0 1 1e\n", {"weighted": True}, 1, "'1e' in '0 1 1e' is no weight"),
        ("0 1.5 2\n", {"weighted": True}, 1, "'1.5' in '0 1.5 2' is no id"),
        ("0 1\n0 7\n", {"num_nodes": 7}, None, "names node 7, but num_nodes is 7"),
        ("# nothing\n", {}, None, "has no edges"),
        ("", {}, None, "has no edges"),
    ],
)
def test_faults_name_the_line(tmp_path: Path, text: str, how: dict[str, Any], line: int | None, match: str) -> None:
    path = written(tmp_path, "a.txt", text)
    with pytest.raises(DataFault) as error:
        EdgeFile(path, **how)
    assert match in str(error.value)
    assert (error.value.fault.path, error.value.fault.line) == (str(path), line)


def test_what_is_not_packed_is_told(tmp_path: Path) -> None:
    for name in ("a.txt.gz", "a.txt.bz2"):
        with pytest.raises(DataFault, match=r"is damaged, or not packed|cut off: Not a gzipped file"):
            EdgeFile(written(tmp_path, name, "0 1\n"))


def test_a_cut_off_archive_is_told(tmp_path: Path) -> None:
    path = written(tmp_path, "a.txt.gz", gzip.compress(b"0 1\n" * 1000)[:-9])
    with pytest.raises(DataFault, match="damaged or cut off"):
        EdgeFile(path)


def test_the_collaborations_of_astrophysicists() -> None:
    if not (data_root() / "graph/ca-AstroPh.txt.gz").is_file():
        pytest.skip("PDL_DATA/graph has no ca-AstroPh.txt.gz")
    graph = CaAstroPh().graph
    assert (graph.num_nodes, len(graph.once()), graph.describe()["self-loops"]) == (18772, 198050, 0)
    assert graph.names[:2].tolist() == [3, 4]


@pytest.mark.parametrize(
    ("name", "nodes", "edges"),
    [("USAir", 332, 2126), ("NS", 1589, 2742), ("Yeast", 2375, 11693), ("Celegans", 297, 2148)],
)
def test_the_graphs_of_seal(name: Any, nodes: int, edges: int) -> None:
    if not (data_root() / "graph/linkpred_seal4.npz").is_file():
        pytest.skip("PDL_DATA/graph has no linkpred_seal4.npz")
    graph = LinkGraph(name).graph
    assert (graph.num_nodes, len(graph.once())) == (nodes, edges)


@pytest.mark.parametrize("kind", [EdgeFile, LinkGraph])
def test_stand_ins_are_read(tmp_path: Path, kind: Any) -> None:
    made = kind(**kind.stand_in(tmp_path, {}).settings)
    assert len(made) == made.graph.num_nodes == 420
    assert made.get_batch(np.array([5]))["node"] == made[5]["node"] == 5
