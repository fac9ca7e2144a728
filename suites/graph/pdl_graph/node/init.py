"""A recipe for a graph whose nodes have labels, as `pdl init graph.node --data DIR` writes it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from pdl.config.text import quoted
from pdl.errors import UsageError
from pdl.train.task import SPLITS
from pdl_graph.batch import SparseFeatures
from pdl_graph.data.base import known
from pdl_graph.data.folder import read_graph
from pdl_graph.graph import Graph

RATIOS = "{train: 0.6, val: 0.2, test: 0.2}"
LARGE = 5_000_000  # edges: from here on neighbourhoods are sampled
FEWEST = 5  # nodes with a label in every split
ALONE = 3_000  # nodes without features: up to here each has a row of weights of its own


def write_recipe(data: Path) -> str:
    """The text of a recipe for the classes of the nodes of a folder (see `pdl_graph.data.GraphFolder`).

    GCN on the whole graph, GraphSAGE on sampled neighbourhoods where that is large; where nodes have no features, APPNP
    on rows of the identity matrix, which is label propagation with learned labels. The splits are those of the column
    split; without one, shares of each class. Raises UsageError where labels or features are missing.
    """
    if not data.is_dir():
        raise UsageError(f"{data}: no folder; name the one that holds edges.csv and nodes.csv")
    graph = read_graph(data)
    count = 0 if graph.y is None else int(known(graph.y).sum())
    if graph.x is None and graph.num_nodes > ALONE:
        raise UsageError(
            f"{data}: the {graph.num_nodes} nodes have no features; give them columns of numbers in nodes.csv, or "
            "features.npy. Links of such a graph can be learned: pdl init graph.link"
        )
    if count < FEWEST * len(SPLITS):
        raise UsageError(f"{data}: {count} nodes have a label; at least {FEWEST * len(SPLITS)} are needed, in a column "
                         "label of nodes.csv")  # fmt: skip
    normalize = ", identity: true" if graph.x is None else ", normalize: true" if _counts(graph) else ""
    have = [split for split in SPLITS if graph.masks.get(split, np.zeros(1, bool)).any()]
    if have and "train" not in have:
        raise UsageError(f"{data}: the column split has no train; its values are {', '.join(graph.masks)}")
    more = "" if have else f", ratios: {RATIOS}"
    paths = {split: quoted(data.resolve()) if split == "train" else '"${data.train.path}"' for split in have or SPLITS}
    lines = [
        f"# {graph.num_nodes:,} nodes, {graph.num_edges:,} edges in either direction, {graph.num_features:,} features; "
        f"{count:,} nodes have a label.",
        "defaults:",
        "  - /graph/node",
        "  - _self_",
        *_model(graph),
        "data:",
        *(
            f"  {split}: {{_target_: pdl_graph.data.GraphFolder, path: {path}, split: {split}{more}{normalize}}}"
            for split, path in paths.items()
        ),
        *_batches(graph),
    ]
    return "\n".join(lines) + "\n"


def _counts(graph: Graph) -> bool:
    """Whether the features are counts or marks, as of words: rows of these are divided by their sums."""
    values = graph.x.value if isinstance(graph.x, SparseFeatures) else np.asarray(graph.x)
    return bool(values.size) and bool((values >= 0).all() and (values == np.round(values)).all() and values.max() <= 1)


def _model(graph: Graph) -> Sequence[str]:
    if graph.x is None:
        return ("model: {_target_: pdl_graph.APPNP, hidden: 64, dropout: 0.5, edge_dropout: 0.0}",
                "optim: {weight_decay: 5.0e-4}")  # fmt: skip
    if graph.num_edges < LARGE:
        return ("model: {_target_: pdl_graph.GCN, hidden: 64}",
                "optim: {groups: [{match: convs.0.weight, weight_decay: 5.0e-4}]}")  # fmt: skip
    return "model: {_target_: pdl_graph.GraphSAGE, hidden: 128}", "task: {neighbours: [10, 10]}"


def _batches(graph: Graph) -> Sequence[str]:
    return () if graph.num_edges < LARGE else ("  batch_size: 1024", "train: {epochs: 10}")
