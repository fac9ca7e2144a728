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


def test_nodes_without_features_are_learned_from_their_neighbours(folder: Path, tmp_path: Path) -> None:
    rows = [",".join(line.split(",")[:2]) for line in (folder / "nodes.csv").read_text().splitlines()]
    (folder / "nodes.csv").write_text("\n".join(rows) + "\n")
    result = workflow.train(config.load(init("graph.node", data=folder, out=tmp_path / "r.yaml")), run=tmp_path / "run",
                            progress=False)  # fmt: skip
    best = max(each["test/accuracy"] for each in result.baselines.values())
    assert result.metrics["test/accuracy"] >= best or any("below a baseline" in each for each in result.warnings)


def test_many_nodes_without_features_are_refused(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from pdl_graph.node import init as written

    monkeypatch.setattr(written, "ALONE", 10)
    (folder / "nodes.csv").write_text("id,label\n" + "".join(f"n{i},oak\n" for i in range(NODES)))
    with pytest.raises(UsageError, match="have no features"):
        init("graph.node", data=folder, out=tmp_path / "r.yaml")


def test_molecules(tmp_path: Path) -> None:
    """The column of SMILES and what is learned are found, by names of columns that nobody foresaw."""
    pytest.importorskip("rdkit")
    rng = np.random.default_rng(0)
    chains, ends = rng.integers(1, 9, 60).tolist(), rng.choice(["O", "N", "Cl", "c1ccccc1"], 60).tolist()
    texts = ["C" * n + end for n, end in zip(chains, ends, strict=True)]
    rows = [f"m{i},{text},{len(text)},{0.1 * len(text):.1f}" for i, text in enumerate(texts)]
    (tmp_path / "m.csv").write_text("\n".join(["code,structure,size,solubility", *rows, "m99,C(C,1,1"]) + "\n")
    written = init("graph.graphs", data=tmp_path / "m.csv", out=tmp_path / "r.yaml")
    assert "the split is random" in written.read_text()
    assert "1 rows left out; the number in solubility is learned" in written.read_text()
    recipe = config.load(written, ["train.epochs=3"])
    assert "test/rmse" in workflow.train(recipe, run=tmp_path / "run", progress=False).metrics
    yes = [f"{row.rpartition(',')[0]},{int('O' in row)}" for row in rows]
    (tmp_path / "m.csv").write_text("\n".join(["code,structure,size,oxygen", *yes]) + "\n")
    assert "yes or no in oxygen" in init("graph.graphs", data=tmp_path / "m.csv", out=tmp_path / "b.yaml").read_text()


def test_graphs_with_classes(tmp_path: Path) -> None:
    """Rings and lines."""
    lines = ["240"]
    for i in range(240):
        n, ring = 4 + i % 7, i % 2
        ends = [
            sorted({(k - 1) % n, (k + 1) % n} if ring else {j for j in (k - 1, k + 1) if 0 <= j < n}) for k in range(n)
        ]
        lines += [f"{n} {ring}", *(" ".join(map(str, (0, len(each), *each))) for each in ends)]
    (tmp_path / "shapes.txt").write_text("\n".join(lines) + "\n")
    written = init("graph.graphs", data=tmp_path / "shapes.txt", out=tmp_path / "r.yaml")
    assert "240 graphs of 2 classes" in written.read_text()
    result = workflow.train(config.load(written, ["train.epochs=60"]), run=tmp_path / "run", progress=False)
    assert result.metrics["test/accuracy"] > 0.8


@pytest.mark.parametrize("head", ["subject,predicate,object\n", ""])
def test_facts(tmp_path: Path, head: str) -> None:
    """Everyone lives where one works: what is left out can be told from the rest."""
    lines = [f"p{i},{relation},t{i % 5}" for i in range(60) for relation in ("lives", "works", "votes")]
    (tmp_path / "facts.csv").write_text(head + "\n".join(lines) + "\n")
    written = init("graph.knowledge", data=tmp_path / "facts.csv", out=tmp_path / "r.yaml")
    assert "180 facts, 65 entities, 3 relations" in written.read_text()
    recipe = config.load(written, ["train.epochs=30"])
    result = workflow.train(recipe, run=tmp_path / "run", progress=False)
    assert result.metrics["test/mrr"] > 0.6


@pytest.mark.parametrize(
    ("task", "nodes", "said"),
    [
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
