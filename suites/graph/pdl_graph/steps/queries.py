"""Queries about a graph: nodes and pairs of nodes, as options of `pdl predict` and as inputs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from pdl.errors import DataError, UsageError
from pdl.runtime.steps import Flag, Input
from pdl.runtime.tables import split_names
from pdl_graph.steps.graph_folder import pairs

NODES = Flag("--nodes", "NODE,NODE,...", "Nodes by name.")
PAIRS = Flag("--pairs", "FILE|A:B", "Pairs of nodes: a table with the columns source and target, or one pair.")
NEW_GRAPH = Flag("--new-graph", "DIR", "The graph that is asked about: a folder with edges.csv and nodes.csv.")


def node_queries(values: Mapping[str, Sequence[str]]) -> list[Any]:
    """The inputs that the options NODES and NEW_GRAPH mean: nodes, or all nodes of the graph."""
    graph = _graph(values)
    if NODES.name not in values:
        return [Path(folder) for folder in graph.values()]
    names = [name for given in values[NODES.name] for name in split_names(given, "list of nodes")]
    if not names:
        raise UsageError(f"{NODES.name} {' '.join(values[NODES.name])!r}: nothing is asked; name nodes")
    return [Input(name, {**graph, "node": name}) for name in names]


def pair_queries(values: Mapping[str, Sequence[str]]) -> list[Any]:
    """The inputs that the options PAIRS and NEW_GRAPH mean."""
    graph = _graph(values)
    if PAIRS.name not in values:
        return [Path(folder) for folder in graph.values()]
    given = values[PAIRS.name]
    found = [pair for each in given for pair in (pairs(each) if Path(each).is_file() else [pair_of(each)])]
    if not found:
        raise UsageError(f"{PAIRS.name} {' '.join(given)!r}: nothing is asked; name a file with a row for each pair")
    return [Input(":".join(pair), {**graph, "pair": pair}) for pair in found]


def pairs_of_file(path: str | Path) -> Iterator[Input]:
    """The pairs of a table with the columns source and target, as inputs."""
    return (Input(":".join(pair), {"pair": pair}) for pair in pairs(path))


def pair_of(given: Any) -> tuple[str, str]:
    """A pair: ("a", "b"), or "a:b"; DataError for anything else."""
    ends = given.split(":") if isinstance(given, str) else given
    if isinstance(ends, Sequence) and not isinstance(ends, str) and len(ends) == 2:
        return str(ends[0]), str(ends[1])
    raise DataError(f"{given!r:.60} is no pair; expected ['a', 'b'] or 'a:b' (or a file of pairs, which is not there)")


def _graph(values: Mapping[str, Sequence[str]]) -> dict[str, str]:
    folders = values.get(NEW_GRAPH.name, ())
    if len(folders) > 1:
        raise UsageError(f"{NEW_GRAPH.name} is given {len(folders)} times; queries are put to one graph")
    return {"graph": folders[0]} if folders else {}
