"""Checks of pairs of nodes before training: leaks between splits, missing nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from pdl.data.faults import DataFault, Fault
from pdl.errors import DataError
from pdl.train import Recipe
from pdl_graph.data.edges import EdgeSplit
from pdl_graph.data.pairs import edge_keys, keys_of, member
from pdl_graph.link.loader import split_of

Array = np.ndarray


def check_recipe(recipe: Recipe, progress: Any = None) -> list[Fault]:
    """What is wrong with the splits of a recipe: data that cannot be read, edges to be found that messages use, pairs
    in two splits, labels that the graph does not bear out, nodes that no message reaches."""
    faults, splits = list[Fault](), dict[str, EdgeSplit]()
    for name, part in recipe.data.splits.items():
        try:
            splits[name] = split_of(part.build())[0]
        except DataError as error:
            own = error.fault if isinstance(error, DataFault) else Fault(None, None, str(error), "correct data." + name)
            faults.append(Fault(own.path, own.index, own.what, own.advice, split=name))
            continue
        if progress is not None:
            progress(name, len(splits[name]), len(splits[name]))
    earlier = dict[str, EdgeSplit]()
    for name, split in splits.items():
        path = None if split.path is None else str(split.path)
        found = [*_labels(split), *_leaks(name, split), *_again(split, earlier), *_alone(name, split)]
        faults += [Fault(path, None, what, advice, split=name, severity=how) for what, advice, how in found]
        earlier[name] = split
    return faults


def _keys(split: EdgeSplit, label: int | None = None) -> Array:
    pairs = split.pairs if label is None else split.pairs[split.targets == label]
    return keys_of(pairs[:, 0], pairs[:, 1], split.whole.num_nodes, directed=split.whole.directed)


def _labels(split: EdgeSplit) -> Iterator[tuple[str, str, str]]:
    """Labels that the whole graph does not bear out."""
    edges = edge_keys(split.whole)
    wrong = int((member(edges, _keys(split)) != (split.targets == 1)).sum())
    if wrong:
        yield f"{wrong} pairs have a label that is not the graph's", "make the split from this graph", "error"


def _leaks(name: str, split: EdgeSplit) -> Iterator[tuple[str, str, str]]:
    """Edges to be found that messages use."""
    known = int(member(edge_keys(split.graph), _keys(split, 1)).sum())
    if known and name != "train" and not (split.val_messages and name == "val"):
        yield f"{known} edges of {name} are in the message graph", "take them out of it: models see the answer", "error"


def _again(split: EdgeSplit, earlier: dict[str, EdgeSplit]) -> Iterator[tuple[str, str, str]]:
    """Pairs that an earlier split has, too."""
    mine = _keys(split)
    for name, other in earlier.items():
        twice = int(np.isin(mine, _keys(other)).sum())
        if twice:
            yield f"{twice} pairs are in {name}, too", "give all splits the same val, test and seed", "error"


def _alone(name: str, split: EdgeSplit) -> Iterator[tuple[str, str, str]]:
    """Nodes of pairs that the split leaves without any edge."""
    lonely = (split.graph.in_degree() == 0) & (split.graph.out_degree() == 0)
    count, ends = int(lonely[split.pairs[split.targets == 1]].any(1).sum()), len(_keys(split, 1))
    if name != "train" and count > 0.1 * ends:
        yield (
            f"{count} of the {ends} edges join a node that has no edge left for messages",
            "models know only the features of such nodes; hold out fewer edges",
            "warning",
        )
