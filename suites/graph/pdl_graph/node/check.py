"""Look data sets of nodes over before training: labels, features, splits, what leaks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations

import numpy as np

from pdl.data.checks import Progress, Source, open_all
from pdl.data.faults import Fault
from pdl.train import Recipe
from pdl_graph.data.base import GraphData, NodeData, known, unwrap
from pdl_graph.data.check import Finding, check_graph
from pdl_graph.graph import Graph


def check_recipe(recipe: Recipe, progress: Progress | None = None) -> list[Fault]:
    """The faults of a recipe with data sets of nodes: those of its graphs, of each split, and between splits."""
    return check_nodes({split: part.build for split, part in recipe.data.splits.items()}, progress=progress)


def check_nodes(datasets: Mapping[str, Source], *, progress: Progress | None = None) -> list[Fault]:
    """Faults of data sets of nodes, by split; an empty list if there are none.

    of the graph    see `check_graph`; once for a graph that splits share
    in a split      no nodes, nodes without a label, classes that training lacks, features of another width
    between splits  the same node in two of them; graphs with other edges under the same nodes
    """
    faults: list[Fault] = []
    opened = {split: unwrap(dataset)[0] for split, dataset in open_all(datasets, faults).items() if len(dataset)}
    seen: set[int] = set()
    for split, dataset in opened.items():
        if not isinstance(dataset, GraphData):
            what = f"{type(dataset).__name__} has no graph"
            faults.append(Fault(None, None, what, "use a data set of pdl_graph.data", split=split))
            continue
        if id(dataset.graph) not in seen:
            seen.add(id(dataset.graph))
            faults += check_graph(dataset.graph, path=dataset.path_of(0))
        if isinstance(dataset, NodeData):
            faults += _placed(dataset, split, _split(dataset))
        if progress is not None:
            progress(split, len(dataset), len(dataset))
    nodes = {split: dataset for split, dataset in opened.items() if isinstance(dataset, NodeData)}
    for first, second in combinations(nodes, 2):
        faults += _placed(nodes[second], second, _together(first, nodes[first], nodes[second]))
    return faults


def _placed(dataset: NodeData, split: str, findings: Iterator[Finding]) -> list[Fault]:
    return [Fault(dataset.path_of(0), None, what, advice, split=split, severity="error" if hard else "warning")
            for what, advice, hard in findings]  # fmt: skip


def _split(dataset: NodeData) -> Iterator[Finding]:
    y = dataset.y
    if y is None:
        yield "the nodes have no labels", "give labels, or use a task that needs none", True
        return
    without = dataset.nodes[~known(y)[dataset.nodes]]
    if len(without):
        what = f"{len(without):,} of {len(dataset):,} nodes have no label (first: {_name(dataset.graph, without[0])})"
        yield what, "label them, or take them out of the split", True
    count = len(dataset.classes)
    if y.ndim == 1 and y.dtype.kind in "iu" and count:
        held = y[dataset.nodes]
        if int(held.max(initial=-1)) >= count:
            yield f"label {held.max()} is beyond the {count} classes", "correct the label or the class list", True
            return
        absent = np.flatnonzero(np.bincount(held[held >= 0], minlength=count) == 0)
        if len(absent):
            names = ", ".join(dataset.classes[i] for i in absent[:5].tolist())
            what = f"{len(absent)} of {count} classes have no nodes: {names}"
            yield what, "add nodes, or take the class out", dataset.split == "train"


def _together(first: str, a: NodeData, b: NodeData) -> Iterator[Finding]:
    if a.graph.num_features != b.graph.num_features:
        what = f"{b.graph.num_features} features, {first} has {a.graph.num_features}"
        yield what, "give the nodes of all splits the same features", True
    if list(a.classes) != list(b.classes):
        what = f"{len(b.classes)} classes, {first} has {len(a.classes)}, or other names or another order"
        yield what, "give all splits one class list", True
    if a.graph is b.graph:
        both = np.intersect1d(a.nodes, b.nodes)
        if len(both):
            what = f"{len(both):,} of {len(b):,} nodes are in {first} too (first: {_name(a.graph, both[0])})"
            yield what, "take them out of one of the two, or the measured numbers are memory", True


def _name(graph: Graph, node: int) -> str:
    return str(graph.names[int(node)]) if len(graph.names) else str(int(node))
