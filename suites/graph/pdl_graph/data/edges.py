"""Edges of a graph split into those to learn from and those to be found: `EdgeSplit`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Annotated, Any, Literal
from weakref import WeakValueDictionary

import numpy as np

from pdl.data import Dataset, StandIn, digest
from pdl.data.faults import fault
from pdl.errors import ConfigError
from pdl.hints import Range
from pdl.suites import locate, moved
from pdl_graph.analysis import components
from pdl_graph.data.base import GraphData, graph_of
from pdl_graph.data.pairs import edge_keys, keys_of, member, non_edges, pairs_of
from pdl_graph.graph import Graph

Array = np.ndarray
Split = Literal["train", "val", "test"]


class EdgeSplit(GraphData):
    """Pairs of nodes of one split, and the graph that messages may use; sample i is {"pair": int64 [2], "label": 0 or
    1}.

    The edges (of an undirected graph each once, repeated ones once) are shuffled by `seed`; the first go to the test,
    the next to val, as many as their shares rounded down (Kipf and Welling, arXiv 1611.07308, whose shares are the
    defaults). Val and test hold besides `negative_ratio` times as many pairs that no edge of the whole graph joins,
    each once, none of them in both. Those of training are drawn anew in each epoch, by the task.

    graph          a data set with a graph, or the graph
    split          train (edges alone), val or test
    val, test      shares of the edges
    seed           of the split and its negatives
    negative_ratio pairs without an edge, for each edge of val and test
    val_messages   leave the edges of val in the message graph, too: for models of subgraphs, which take the edge in
                   question out; others would see the answer
    connected      hide no edge of a spanning forest, so that what hangs together does so in the message graph, too
                   (the split of node2vec, Grover and Leskovec, arXiv 1607.00653, section 4.4)

    .graph    the message graph: all nodes, edges of training only (the same object in all splits)
    .whole    the graph that was split
    .pairs    int64 [P, 2], source and target; edges first;    .targets   int64 [P], 1 for edges and 0
    """

    def __init__(
        self,
        graph: Any,
        split: Split = "train",
        *,
        val: Annotated[float, Range(0, below=1)] = 0.05,
        test: Annotated[float, Range(0, below=1)] = 0.1,
        seed: Annotated[int, Range(0)] = 0,
        negative_ratio: Annotated[float, Range(0)] = 1.0,
        val_messages: bool = False,
        connected: bool = False,
    ) -> None:
        if split not in ("train", "val", "test"):
            raise ConfigError(f"EdgeSplit: split={split!r} is none of train, val, test")
        if val + test >= 1:
            raise ConfigError(f"EdgeSplit: val={val} and test={test} leave no edge for training; lower them")
        self.path = getattr(graph, "path", None)
        self.whole = graph if isinstance(graph, Graph) else graph_of(graph)
        self.split, self.seed, self.val_messages = split, seed, val_messages
        cut = _cut(self.whole, val, test, seed, negative_ratio, val_messages, connected)
        positive, negative = cut.edges[split], cut.negatives[split]
        if not len(positive):
            raise fault(self.path, f"no edge of {cut.total} is left for {split}", "raise its share, or leave it out")
        self.graph = cut.messages
        self.pairs = pairs_of(np.concatenate([positive, negative]), self.whole.num_nodes)
        self.targets = np.repeat(np.array([1, 0]), [len(positive), len(negative)])

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: int) -> dict[str, Any]:
        return {"pair": self.pairs[index], "label": self.targets[index]}

    def get_batch(self, indices: Array) -> dict[str, Array]:
        """{"pair": int64 [N, 2], "label": int64 [N]}."""
        return {"pair": self.pairs[indices], "label": self.targets[indices]}

    @property
    def labels(self) -> Array:
        """1 for edges, 0 for pairs without one, int64 [P]."""
        return self.targets

    @property
    def fingerprint(self) -> str:
        return digest(type(self).__name__, self.whole.fingerprint, self.graph.fingerprint, self.pairs, self.targets)

    @classmethod
    def stand_in(cls, folder: Path, settings: Mapping[str, Any]) -> StandIn | None:
        """That of the graph's data set."""
        node = settings["graph"]
        part = locate(moved(node["_target_"]) or node["_target_"])
        stand = part.stand_in(folder, node) if issubclass(part, Dataset) else None
        return None if stand is None else StandIn({"graph": {**node, **stand.settings}}, stand.what)


@dataclass(frozen=True)
class _Cut:
    """What one split makes of a graph: the message graph, and numbers of pairs by split."""

    whole: Graph
    messages: Graph
    edges: Mapping[str, Array]
    negatives: Mapping[str, Array]

    @property
    def total(self) -> int:
        return sum(map(len, self.edges.values()))


_cuts: WeakValueDictionary[Any, _Cut] = WeakValueDictionary()
_recent: list[_Cut] = []  # the last one stays, so that three splits share it
_lock = Lock()


def _cut(graph: Graph, *about: Any) -> _Cut:
    """As `_make`; the same object again while it is in use."""
    with _lock:
        made = _cuts.get((id(graph), *about))  # a cut holds its graph, so the id is not another's
        if made is None:
            made = _cuts[(id(graph), *about)] = _make(graph, *about)
        _recent[:] = [made]
    return made


def _make(
    graph: Graph, val: float, test: float, seed: int, negative_ratio: float, val_messages: bool, connected: bool
) -> _Cut:
    rng, keys = np.random.default_rng(seed), edge_keys(graph)
    order = rng.permutation(len(keys))
    sizes = {"test": int(len(keys) * test), "val": int(len(keys) * val)}
    if connected:
        order = _forest_last(order, keys, graph.num_nodes, sum(sizes.values()), rng)
    parts = np.split(keys[order], np.cumsum(list(sizes.values())))
    edges = dict(zip(("test", "val", "train"), parts, strict=True))
    wanted = [int(size * negative_ratio) for size in sizes.values()]
    sampled = non_edges(keys, graph.num_nodes, sum(wanted), rng, directed=graph.directed, distinct=True)
    negatives = {"test": sampled[: wanted[0]], "val": sampled[wanted[0] :], "train": keys[:0]}
    hidden = edges["test"] if val_messages else np.concatenate([edges["test"], edges["val"]])
    return _Cut(graph, without(graph, np.sort(hidden)), edges, negatives)


def _forest_last(order: Array, keys: Array, num_nodes: int, hidden: int, rng: np.random.Generator) -> Array:
    """The same order, but with the edges of a spanning forest behind the others, of which `hidden` will be hidden. The
    forest grows in an order of its own: early edges that close a circle are those of dense places."""
    grown = rng.permutation(len(keys))
    ends, forest = pairs_of(keys[grown], num_nodes), np.zeros(len(keys), bool)
    forest[grown] = components(ends[:, 0], ends[:, 1], num_nodes)[1]
    if (~forest).sum() < hidden:
        raise ConfigError(
            f"EdgeSplit: val and test take {hidden} edges, but {forest.sum()} of {len(order)} hold the graph together; "
            "lower the shares, or set connected=false"
        )
    return np.concatenate([order[~forest[order]], order[forest[order]]])


def without(graph: Graph, keys: Array) -> Graph:
    """The graph without the edges (both directions of undirected ones) of pairs with such numbers, ascending."""
    source, target = graph.edges()
    keep = ~member(keys, keys_of(source, target, graph.num_nodes, directed=graph.directed))
    counts = np.bincount(target[keep], minlength=graph.num_nodes)
    kept = {
        k: getattr(graph, k)[keep] for k in ("edge_weight", "edge_attr", "edge_type") if getattr(graph, k) is not None
    }
    return graph.with_(indptr=np.concatenate([[0], np.cumsum(counts)]), indices=source[keep], **kept)
