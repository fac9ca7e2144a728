"""A recipe for the links of a graph, as `pdl init graph.links --data DIR` writes it."""

from __future__ import annotations

from pathlib import Path

from pdl.config.text import quoted
from pdl.errors import UsageError
from pdl_graph.data.edge_file import EdgeFile
from pdl_graph.data.folder import read_graph
from pdl_graph.graph import Graph

SPLITS = ("train", "val", "test")
FEWEST = 40  # edges


def write_recipe(data: Path) -> str:
    """The text of a recipe that learns which nodes are joined, from a folder (see `pdl_graph.data.GraphFolder`) or a
    list of edges (`pdl_graph.data.EdgeFile`): a variational graph autoencoder, with 5 % of the edges for validation and
    10 % for the test."""
    graph: Graph
    if data.is_dir():
        graph, source = read_graph(data), "GraphFolder"
    elif data.suffix == ".csv":
        raise UsageError(f"{data}: call it edges.csv and give the folder it lies in: --data {data.parent}")
    else:
        graph, source = EdgeFile(data, directed=False, self_loops="drop").graph, "EdgeFile"
    edges = graph.num_edges // 2
    if edges < FEWEST:
        raise UsageError(f"{data}: {edges} edges; at least {FEWEST} are needed, to learn from some and find the others")
    more = ", directed: false, self_loops: drop" if source == "EdgeFile" else ""
    read = f"{{_target_: pdl_graph.data.{source}, path: {quoted(data.resolve())}{more}}}"
    split = '{{_target_: pdl_graph.data.EdgeSplit, split: {0}, seed: "${{train.seed}}", graph: {1}}}'
    again = '"${data.train.graph}"'
    lines = [
        f"# {graph.num_nodes:,} nodes, {edges:,} edges, {graph.num_features:,} features.",
        "defaults:",
        "  - /graph/link",
        "  - _self_",
        "model: {_target_: pdl_graph.VGAE, hidden: 64, dim: 32, kl: 0.1}",
        "data:",
        *(f"  {name}: {split.format(name, read if name == 'train' else again)}" for name in SPLITS),
    ]
    return "\n".join(lines) + "\n"


__all__ = ["write_recipe"]
