"""What `pdl check` tells of sets of whole graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pdl.config import load
from pdl.data import Few
from pdl.train import Recipe
from pdl_graph import Graph, GraphPrediction
from pdl_graph.data import GraphSet
from pdl_graph.graphs.check import LISTED, check_sets
from tests.graph.recipes import recipe_of


def path(length: int, **about: Any) -> Graph:
    """A path in both directions, whose nodes have two features."""
    x = np.random.default_rng(length).random((length, 2), np.float32)
    return Graph.from_edges(np.arange(length - 1), np.arange(1, length), length, directed=False, **{"x": x, **about})


class Paths(GraphSet):
    def __init__(self, graphs: list[Graph], labels: Any = None, targets: Any = None) -> None:
        self.graphs = graphs
        self.classes = ["odd", "even"] if labels is not None else []
        self.names = ["size"] if targets is not None else []
        self._labels = None if labels is None else np.array(labels)
        self.targets = None if targets is None else np.array(targets, np.float32).reshape(-1, 1)

    @property
    def labels(self) -> np.ndarray | None:
        return self._labels


def found(train: GraphSet, severity: str = "error", **others: Any) -> list[str]:
    return [f"[{f.split}] {f.what}" for f in check_sets({"train": train, **others}) if f.severity == severity]


def test_sound_sets_have_no_faults() -> None:
    train, test = Paths([path(2), path(3)], [1, 0]), Paths([path(4), path(5)], [1, 0])
    assert found(train, test=test) == found(train, "warning", test=test) == []


@pytest.mark.parametrize(
    ("made", "match"),
    [
        (Paths([path(2, x=np.full((2, 2), np.nan))], [0]), "[train] 4 features are no finite numbers"),
        (Paths([path(3).with_edges([0])], [0]), "stand in one direction only"),
        (Paths([path(2), Graph.from_edges([], [], 0, x=np.zeros((0, 2)))], [0, 1]), "[train] the graph has no nodes"),
        (Paths([path(2), path(3, x=np.ones((3, 5)))], [0, 1]), "5 features of a node, the first of all has 2; 1 of 2"),
        (Paths([path(2), path(3)], [0, 2]), "[train] label 2 is outside of 0..1 in 1 graphs"),
        (Paths([path(2), path(3)], [1, 1]), "[train] 1 of 2 classes have no graphs: odd"),
        (Paths([path(2), path(3)], None, [np.nan, np.inf]), "[train] size is infinite in 1 graphs"),
        (Paths([path(2), path(3)], None, [np.nan, np.nan]), "[train] size is known of no graph"),
        (Paths([]), "[train] the split is empty"),
    ],
)
def test_errors(made: GraphSet, match: str) -> None:
    assert any(match in each for each in found(made)), found(made)


def test_warnings() -> None:
    train = Paths([path(2), path(3), Graph.from_edges([], [], 2, x=np.ones((2, 2)))], None, [7, 7, 7])
    test = Paths([path(3), path(9)], None, [7, 8])
    assert found(train, "warning", test=test) == [
        "[train] 1 of 3 graphs have no edges",
        "[train] size is 7 in all graphs",
        "[test] 1 of 2 graphs are in train too, edge by edge",
    ]


def test_of_many_faulty_graphs_a_few_are_listed() -> None:
    bad = Paths([path(2, x=np.full((2, 2), np.inf)) for _ in range(LISTED + 3)], [0, 1] * 4)
    assert found(bad)[LISTED:] == ["[train] 3 more graphs have such faults"]
    assert [f.index for f in check_sets({"train": Few(bad, 2)})] == [0, 1]


def test_the_task_checks_its_recipe() -> None:
    good = Recipe(load("graph/mutag_gin"))
    assert not [f for f in GraphPrediction().check(good) if f.severity == "error"]
    assert [f.what for f in GraphPrediction().check(recipe_of())] == ["PowerLaw gives no graphs"]
