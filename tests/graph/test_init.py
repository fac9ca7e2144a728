"""`pdl init graph.node` and `graph.link`: recipes that train unedited."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pdl import config, workflow
from pdl.errors import UsageError
from pdl.workflow.new_recipe import init

NODES, CLASSES = 60, ("oak", "ash", "elm")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three groups of nodes, joined within, with features that say a little of the group."""
    place = tmp_path / "it's a graph"
    place.mkdir()
    rng = np.random.default_rng(0)
    group = np.arange(NODES) % 3
    x = (rng.random((NODES, 6)) < 0.2) | (np.arange(6) // 2 == group[:, None])
    rows = [f"n{i},{CLASSES[group[i]]},{','.join(str(int(v)) for v in x[i])}" for i in range(NODES)]
    (place / "nodes.csv").write_text("\n".join(["id,label,a,b,c,d,e,f", *rows]) + "\n")
    pairs = [(i, j) for i in range(NODES) for j in range(i) if group[i] == group[j] and rng.random() < 0.3]
    (place / "edges.csv").write_text("\n".join(["source,target", *(f"n{i},n{j}" for i, j in pairs)]) + "\n")
    return place


@pytest.mark.parametrize(("task", "metric"), [("graph.node", "test/accuracy"), ("graph.link", "test/auc")])
def test_the_recipe_trains_as_it_is(folder: Path, tmp_path: Path, task: str, metric: str) -> None:
    recipe = config.load(init(task, data=folder, out=tmp_path / "r.yaml"), ["train.epochs=60"])
    result = workflow.train(recipe, run=tmp_path / "run", progress=False)
    assert result.metrics[metric] > 0.8


def test_lists_of_edges(folder: Path, tmp_path: Path) -> None:
    edges = tmp_path / "edges.txt"
    lines = (folder / "edges.csv").read_text().splitlines()[1:]
    edges.write_text("# from to\n" + "\n".join(line.replace("n", "").replace(",", "\t") for line in lines) + "\n")
    recipe = config.load(init("graph.link", data=edges, out=tmp_path / "r.yaml"), ["train.epochs=5"])
    assert recipe.get("task._target_") == "pdl_graph.SubgraphLinks"  # without features SEAL is ahead
    assert workflow.train(recipe, run=tmp_path / "run", progress=False).metrics["test/auc"] > 0.8


def test_the_column_split_is_used(folder: Path, tmp_path: Path) -> None:
    head, *rows = (folder / "nodes.csv").read_text().splitlines()
    splits = [["train", "val", "test"][i % 7 % 3] for i in range(len(rows))]
    (folder / "nodes.csv").write_text("\n".join([head + ",split", *map(",".join, zip(rows, splits, strict=True))]))
    text = init("graph.node", data=folder, out=tmp_path / "r.yaml").read_text()
    assert "ratios" not in text
    assert text.count("split:") == 3


@pytest.mark.parametrize(
    ("task", "nodes", "said"),
    [
        ("graph.node", "id,label\n" + "".join(f"n{i},oak\n" for i in range(NODES)), "have no features"),
        ("graph.node", "id,a\n" + "".join(f"n{i},1\n" for i in range(NODES)), "0 nodes have a label"),
        ("graph.link", None, "39 edges; at least 40"),
    ],
)
def test_what_cannot_be_learned_from(folder: Path, tmp_path: Path, task: str, nodes: str | None, said: str) -> None:
    if nodes is not None:
        (folder / "nodes.csv").write_text(nodes)
    else:
        rows = (folder / "edges.csv").read_text().splitlines()
        (folder / "edges.csv").write_text("\n".join(rows[:40]) + "\n")
    with pytest.raises(UsageError, match=said):
        init(task, data=folder, out=tmp_path / "r.yaml")
