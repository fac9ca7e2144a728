"""BlogCatalog: nodes with several groups; the real file where it is at hand, and files with faults."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdl.data import DataFault, data_root
from pdl_graph.data import BlogCatalog

GOOD = {"nodes": "1\n2\n3\n", "groups": "1\n2\n", "edges": "1,2\n2,1\n2,3\n", "group-edges": "1,1\n1,2\n3,2\n"}


def packed(folder: Path, **changes: str | None) -> Path:
    path = folder / "b.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in {**GOOD, **changes}.items():
            if text is not None:
                archive.writestr(f"data/{name}.csv", text)
    return path


def test_groups_and_friends(tmp_path: Path) -> None:
    found = BlogCatalog(path=packed(tmp_path))
    assert found.graph.y.tolist() == [[True, True], [False, False], [False, True]]
    assert [end.tolist() for end in found.graph.edges()] == [[1, 0, 2, 1], [0, 1, 1, 2]]
    assert found.labels is None
    assert found[0]["label"].tolist() == [True, True]
    for name, text in GOOD.items():
        (tmp_path / f"{name}.csv").write_text(text)
    assert BlogCatalog(path=tmp_path).graph.fingerprint == found.graph.fingerprint


def test_halves_are_drawn_by_the_seed(tmp_path: Path) -> None:
    path = BlogCatalog.stand_in(tmp_path, {}).settings["path"]
    parts = {(s, seed): BlogCatalog(s, seed=seed, path=path).nodes for s in ("train", "test") for seed in (0, 1)}
    assert sorted([*parts["train", 0], *parts["test", 0]]) == list(range(420))
    assert len(parts["train", 0]) == 210
    assert set(parts["train", 0]) != set(parts["train", 1])
    assert len(BlogCatalog("train", train=0.1, path=path)) == 42


def test_val_is_cut_out_of_the_training_half(tmp_path: Path) -> None:
    path = BlogCatalog.stand_in(tmp_path, {}).settings["path"]
    whole = BlogCatalog("train", path=path).nodes
    train, val, test = (BlogCatalog(split, val=0.2, path=path).nodes for split in ("train", "val", "test"))  # type: ignore[arg-type]
    assert (len(train), len(val)) == (168, 42)
    assert sorted([*train, *val]) == whole.tolist()
    np.testing.assert_array_equal(test, BlogCatalog("test", path=path).nodes)


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"edges": None}, "has no edges.csv"),
        ({"edges": "1,2,3\n"}, "has 3 columns, not 2"),
        ({"edges": "1,a\n"}, "edges.csv: cannot be read as numbers"),
        ({"edges": "1,4\n"}, "joins 0 and 3, but the graph has 3 nodes"),
        ({"group-edges": "1,1\n3,3\n"}, "group-edges.csv:2: node 3 in group 3, of 3 nodes and 2 groups"),
    ],
)
def test_faults(tmp_path: Path, changes: dict[str, Any], match: str) -> None:
    with pytest.raises(DataFault) as error:
        BlogCatalog(path=packed(tmp_path, **changes))
    assert match in str(error.value)


def test_the_real_graph() -> None:
    if not (data_root() / "graph/blogcatalog.zip").is_file():
        pytest.skip("PDL_DATA/graph has no blogcatalog.zip")
    graph = BlogCatalog().graph
    assert (graph.num_nodes, len(graph.once()), graph.num_classes) == (10312, 333983, 39)
    assert (graph.y.sum(), graph.y.any(1).all()) == (14476, True)
    assert np.asarray(graph.names)[[0, -1]].tolist() == [1, 10312]
