"""Checks of data sets of whole graphs before training: graphs, labels and targets, overlap of splits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import combinations

import numpy as np

from pdl.data.checks import Progress, Source, open_all
from pdl.data.faults import Fault
from pdl.train import Recipe
from pdl_graph.data.base import unwrap
from pdl_graph.data.check import check_graph
from pdl_graph.data.graphs import Chosen, GraphSet
from pdl_graph.graph import Graph

Finding = tuple[int | None, str, str, bool]
"""(index of a graph, what, advice, whether it is an error and no warning)."""
LISTED = 5  # graphs with errors of their own that are listed


def check_recipe(recipe: Recipe, progress: Progress | None = None) -> list[Fault]:
    """The faults of a recipe with data sets of whole graphs."""
    return check_sets({split: part.build for split, part in recipe.data.splits.items()}, progress=progress)


def check_sets(datasets: Mapping[str, Source], *, progress: Progress | None = None) -> list[Fault]:
    """Faults of data sets of whole graphs, by split; an empty list if there are none.

    of the graphs   the errors of `check_graph`, of the first few graphs that have any; graphs without nodes or edges;
                    features of different widths
    of the targets  classes beyond the class list or without graphs in training; numbers that no graph has, infinite
                    ones, and those that are the same for all
    between splits  the same graph in two of them, by what it holds
    """
    faults: list[Fault] = []
    opened: dict[str, Chosen] = {}
    for split, dataset in open_all(datasets, faults).items():
        if isinstance(unwrap(dataset)[0], GraphSet):
            opened[split] = Chosen(dataset)
            continue
        what = f"{type(unwrap(dataset)[0]).__name__} gives no graphs"
        faults.append(Fault(None, None, what, "use a data set such as pdl_graph.data.TUGraphs", split=split))
    prints = {}
    for split, found in opened.items():
        if len(found):
            found_faults = [*_graphs(found), *_widths(opened, found), *_labels(split, found), *_targets(split, found)]
            faults += [_placed(found, split, each) for each in found_faults]
            prints[split] = [graph.fingerprint for graph in found.graphs]
        if progress is not None:
            progress(split, len(found), len(found))
    for first, second in combinations(prints, 2):
        twins = _twins(first, prints[first], prints[second])
        faults += [_placed(opened[second], second, each) for each in twins]
    return faults


def _placed(found: Chosen, split: str, finding: Finding) -> Fault:
    at, what, advice, hard = finding
    path = found.base.path_of(0 if at is None else int(found.rows[at]))
    return Fault(path, at, what, advice, split=split, severity="error" if hard else "warning")


def _graphs(found: Chosen) -> Iterator[Finding]:
    """Faults of single graphs."""
    faulty = [(at, errors) for at, graph in enumerate(found.graphs) if (errors := _errors(graph))]
    for at, errors in faulty[:LISTED]:
        yield from ((at, each.what, each.advice, True) for each in errors)
    if len(faulty) > LISTED:
        yield None, f"{len(faulty) - LISTED:,} more graphs have such faults", "see the ones above", True
    bare = [at for at, graph in enumerate(found.graphs) if graph.num_nodes and not graph.num_edges]
    if bare:
        what = f"{len(bare):,} of {len(found):,} graphs have no edges"
        yield bare[0], what, "a net sees their nodes one by one; this is no fault, but worth knowing", False


def _errors(graph: Graph) -> list[Fault]:
    if not graph.num_nodes:
        return [Fault(None, None, "the graph has no nodes", "leave it out")]
    return [each for each in check_graph(graph) if each.severity == "error"] if graph.num_edges else []


def _widths(opened: Mapping[str, Chosen], found: Chosen) -> Iterator[Finding]:
    """Features that are not as wide as those of the first graph of all."""
    first = next(each.graphs[0] for each in opened.values() if len(each))
    for name, width in (("node", _node_width), ("edge", _edge_width)):
        wrong = [at for at, graph in enumerate(found.graphs) if graph.num_nodes and width(graph) != width(first)]
        if wrong:
            have = f"{width(found.graphs[wrong[0]])} features of a {name}, the first of all has {width(first)}"
            what = f"{have}; {len(wrong):,} of {len(found):,} graphs are so"
            yield wrong[0], what, "give all graphs the same features", True


def _node_width(graph: Graph) -> int:
    return int(graph.num_features)


def _edge_width(graph: Graph) -> int:
    return 0 if graph.edge_attr is None else int(graph.edge_attr.shape[1])


def _labels(split: str, found: Chosen) -> Iterator[Finding]:
    if found.labels is None or not found.classes:
        return
    count = len(found.classes)
    wrong = np.flatnonzero((found.labels < 0) | (found.labels >= count))
    if len(wrong):
        what = f"label {found.labels[wrong[0]]} is outside of 0..{count - 1} in {len(wrong):,} graphs"
        yield int(wrong[0]), what, "correct the label or the class list", True
        return
    absent = np.flatnonzero(np.bincount(found.labels, minlength=count) == 0)
    if len(absent):
        names = ", ".join(found.classes[i] for i in absent[:5].tolist())
        what = f"{len(absent)} of {count} classes have no graphs: {names}"
        yield None, what, "add graphs, or take the class out", split == "train"


def _targets(split: str, found: Chosen) -> Iterator[Finding]:
    if found.targets is None:
        return
    for name, values in zip(found.names, found.targets.T, strict=True):
        endless = np.flatnonzero(np.isinf(values))
        if len(endless):
            yield int(endless[0]), f"{name} is infinite in {len(endless):,} graphs", "correct or remove it", True
        finite = values[np.isfinite(values)]
        if not len(finite):
            yield None, f"{name} is known of no graph", "give it, or take the target out", split == "train"
        elif len(finite) > 1 and (finite == finite[0]).all():
            yield None, f"{name} is {finite[0]:g} in all graphs", "there is nothing to learn; take it out", False


def _twins(first: str, earlier: list[str], later: list[str]) -> Iterator[Finding]:
    known = set(earlier)
    both = [at for at, each in enumerate(later) if each in known]
    if both:
        what = f"{len(both):,} of {len(later):,} graphs are in {first} too, edge by edge"
        yield both[0], what, "where they are one thing twice, take one out: the split measures memory there", False
