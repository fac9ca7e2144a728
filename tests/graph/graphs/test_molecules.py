"""Models of molecules in use: SMILES in, the same answers from a run and from its bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from pdl import runtime
from pdl.data import DataLoader
from pdl.errors import DataError
from pdl.runtime.predict import predict as predict_each
from pdl.workflow import predict, train
from pdl.workflow.run import Run
from pdl_graph import GraphPrediction
from pdl_graph.data import Molecules, TUGraphs
from pdl_graph.graphs.loader import Batches, chosen_of
from tests.graph.recipes import recipe_of

pytest.importorskip("rdkit", reason='needs RDKit: pip install "pdl-graph[molecules]"')

ROWS = "CCO,1,\nCCC,,2\nCCCC,3,4\nc1ccccc1,2,2\nCC(=O)O,1,2\nCN,0,1\n[Na+].[Cl-],1,0\nC,5,\nCCN,4,1\nCCCl,0,0\n"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that learned two numbers, not all of them known."""
    folder = tmp_path_factory.mktemp("molecules")
    (folder / "own.csv").write_text("smiles,a,b\n" + ROWS * 4)
    data = {"_target_": "pdl_graph.data.Molecules", "path": str(folder / "own.csv"), "targets": ["a", "b"],
            "splitting": "random"}  # fmt: skip
    encoder = {"_target_": "pdl_graph.GINE", "hidden": 8, "num_layers": 2}
    config = {
        "task": {"_target_": "pdl_graph.GraphPrediction", "kind": "regression"},
        "model": {"_target_": "pdl_graph.GraphNet", "encoder": encoder, "readout": ["mean", "max"]},
        "data": {**{split: {**data, "split": split} for split in ("train", "val", "test")}, "batch_size": 16},
        "optim": {"_target_": "pdl.optim.Adam", "lr": 1e-2},
        "train": {"epochs": 2, "compile": False, "report": False},
    }
    train(config, run=folder / "run", progress=False)
    return folder / "run"


def test_runs_and_bundles_answer_for_smiles(trained: Path, tmp_path: Path) -> None:
    requested: list[Any] = ["CCO", {"smiles": "OCC"}, "[Na+].[Cl-]"]
    ours = predict(trained, requested)
    theirs = predict(trained / "model.pdl", requested)
    for one, other in zip(ours, theirs, strict=True):
        assert one["input"] == other["input"]
        assert [one[name] for name in "ab"] == pytest.approx([other[name] for name in "ab"], rel=1e-5)
    assert [ours[0][name] for name in "ab"] == pytest.approx([ours[1][name] for name in "ab"], rel=1e-5)
    assert runtime.load(trained / "model.pdl")("CCO")["a"] == pytest.approx(ours[0]["a"], rel=1e-5)
    (tmp_path / "asked.csv").write_text("smiles\nCCO\nC(\n")
    known, broken = predict_each(trained / "model.pdl", [tmp_path / "asked.csv"], skip_errors=True)
    assert known.to_dict()["a"] == pytest.approx(ours[0]["a"], rel=1e-5)
    assert "is no SMILES" in str(broken.error)
    with pytest.raises(DataError, match="is no SMILES"):
        predict(trained, ["C("])


def test_a_run_remembers_how_molecules_became_graphs(trained: Path) -> None:
    recipe = Run(trained).recipe()
    assert recipe.task.get("molecules")["bonds"] == ["type", "conjugated", "ring", "stereo"]
    task = Run(trained).task(recipe)
    other = Molecules("ESOL", targets=["Molecular Weight", "Number of Rings"], bonds=["type"])
    other.names = ["a", "b"]
    with pytest.raises(DataError, match="give all splits the same elements, atoms and bonds"):
        task.prepare(recipe, {"test": other})


def test_molecules_and_other_graphs_do_not_mix() -> None:
    esol, mutag = Molecules("ESOL"), TUGraphs("MUTAG")
    mutag.names, mutag.targets = esol.names, np.ones((len(mutag), 1), np.float32)
    with pytest.raises(DataError, match="give all splits the same"):
        GraphPrediction(kind="regression").prepare(recipe_of(), {"train": esol, "val": mutag})


def test_the_loader_knows_its_molecules() -> None:
    data = Molecules("ESOL", "test")
    loader = DataLoader(Batches(chosen_of(data)), batch_size=8)
    assert chosen_of(loader.dataset).smiles == data.smiles
