"""Pairs of nodes in a bundle: what is around them, put side by side, and what is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pdl.errors import DataError
from pdl.runtime.bundle import pack, read
from pdl.runtime.pipeline import Pipeline
from pdl.vocabulary import Vocabulary
from pdl_graph.steps.enclosing import Neighbours
from tests.pipelines import pipeline as made

NAMES = {"nodes": Vocabulary("abcdef")}
GRAPH = Neighbours.of(
    np.array([0, 1, 2, 3, 0, 4]), np.array([1, 2, 3, 0, 2, 4]), 6
)  # a square with a diagonal; e, f alone
CONSTANTS = {"graph.start": GRAPH.start, "graph.neighbours": GRAPH.neighbours}


def pipeline(constants: Any = CONSTANTS, **settings: Any) -> Pipeline:
    pre = {
        part: [{"step": "enclosing_subgraph", "part": part, "vocabulary": "nodes", **settings}]
        for part in ("size", "node", "edge")
    }
    return made(pre, vocabularies=NAMES, constants=constants)


def test_a_pair_becomes_its_subgraph_without_its_own_edge() -> None:
    found = pipeline().prepare("a:c")
    assert found["size"].tolist() == [4]
    assert found["node"].tolist() == [[0, 1, 2], [0, 1, 2], [0, 2, 2], [0, 2, 2]]  # a, c, b, d
    assert found["edge"].tolist() == [[0, 0, 2], [0, 0, 3], [0, 1, 2], [0, 1, 3],
                                      [0, 2, 0], [0, 2, 1], [0, 3, 0], [0, 3, 1]]  # fmt: skip
    assert pipeline().prepare("e:f")["edge"].shape == (0, 3)


def test_samples_are_numbered_side_by_side() -> None:
    steps = pipeline()
    made = steps.collate([steps.prepare(each) for each in ("a:c", "e:f", {"pair": ["a", "b"]})])
    assert made["size"].tolist() == [4, 2, 4]
    assert made["node"][:, 0].tolist() == [0, 0, 0, 0, 1, 1, 2, 2, 2, 2]
    assert np.bincount(made["edge"][:, 0]).tolist() == [8, 0, 8]
    sizes = {"n": 3, "nodes": 20, "edges": 50}
    for part, shape in (("size", (3,)), ("node", (20, 3)), ("edge", (50, 3))):
        assert steps.random(part, shape, np.random.default_rng(0), sizes).shape == shape  # type: ignore[union-attr]


def test_a_bundle_keeps_the_graph_and_what_is_damaged_is_told() -> None:
    data = pack({"kind": "onnx", "graph": {}}, {}, constants=CONSTANTS)
    kept = read(data).constants
    assert {name: each.tolist() for name, each in kept.items()} == {k: v.tolist() for k, v in CONSTANTS.items()}
    assert not read(pack({"kind": "onnx", "graph": {}}, {})).constants
    cut = data.replace(GRAPH.neighbours.tobytes(), (GRAPH.neighbours + 1).tobytes())
    with pytest.raises(DataError, match=r"constants\.safetensors"):
        read(cut)
    with pytest.raises(DataError, match="no graph 'other' is among the constants"):
        pipeline(graph="other")
    for wrong in (GRAPH.neighbours + 3, GRAPH.neighbours[:-1], GRAPH.neighbours.astype(np.int64)):
        with pytest.raises(DataError, match="not lists of neighbours"):
            pipeline({**CONSTANTS, "graph.neighbours": wrong}).prepare("a:b")
    other = Neighbours.of(np.array([0]), np.array([1]), 3)
    with pytest.raises(DataError, match="6 names for the 3 nodes"):
        pipeline({"graph.start": other.start, "graph.neighbours": other.neighbours}).prepare("a:b")


@pytest.mark.parametrize(
    ("item", "message"),
    [("a:a", "of one node"), ("a", "is no pair"), (["a", "b", "c"], "is no pair"), ("a:x", "node 'x' is not among")],
)
def test_what_is_no_pair_is_refused(item: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        pipeline().prepare(item)
