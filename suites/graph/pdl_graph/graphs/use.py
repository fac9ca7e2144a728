"""A model of whole graphs in use: its answers, its bundle, its pictures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import pdl
from pdl.export.deployment import Deployment
from pdl.nn import Module
from pdl.ops import CSR
from pdl.train import Recipe
from pdl_graph import deploy
from pdl_graph.batch import GraphBatch
from pdl_graph.graphs.loader import chosen_of
from pdl_graph.steps.graphs import Form

if TYPE_CHECKING:
    from pdl_graph.graphs.task import GraphPrediction

SAMPLES = 8
SOME = ("CCO", "c1ccccc1", "CC(=O)Nc1ccc(O)cc1")
_FOLDERS = (
    '    session = pdl.runtime.load("model.pdl")\n    session("folder")\n\n'
    "or `pdl predict model.pdl --new-graph folder`. The folder holds edges.csv (source, target, attributes) and "
    "nodes.csv (id, features)."
)
_MOLECULES = (
    '    session = pdl.runtime.load("model.pdl")\n    session("CCO")\n\n'
    "or `pdl predict model.pdl CCO`, or with a file *.csv that has a column smiles. Molecules are read by RDKit: "
    '`pip install "pdl-graph[molecules]"`.'
)


def answering(task: GraphPrediction, model: Module) -> deploy.Answering:
    """Scores of classes, probabilities or numbers for a graph."""
    return deploy.Answering(
        model=model,
        kind="graph",
        encode=lambda graph: model(graph),
        answer=lambda found, ask: found,
        form=form_of(task),
        weighted=bool(task.weighted),
        output="scores" if task.kind != "regression" else "values",
        post=post(task),
        reads=None if task.molecules is None else {
            "step": "smiles", **task.molecules.plain(), "self_loops": task.self_loops,
        },
    )  # fmt: skip


def post(task: GraphPrediction) -> list[dict[str, Any]]:
    """The steps behind a model's outputs."""
    if task.kind == "classification":
        return [{"step": "softmax"}, {"step": "top", "k": min(5, len(task.classes))}]
    if task.kind == "binary":
        return [{"step": "probabilities"}]
    return [{"step": "values", "scale": list(map(float, task.std)), "shift": list(map(float, task.mean))}]


def labels(task: GraphPrediction) -> list[str]:
    """What the answers are called."""
    return list(task.classes if task.kind == "classification" else task.targets)


def form_of(task: GraphPrediction) -> Form:
    """How folders become what the model reads."""
    return Form(
        features=task.sizes.get("num_features", 0),
        directed=bool(task.directed),
        self_loops=task.self_loops,
        attributes=task.sizes.get("num_edge_features", 0),
    )


def deployment(
    task: GraphPrediction,
    model: Module,
    recipe: Recipe,
    *,
    dataset: Any = None,
    metrics: Mapping[str, float | None],
    licence: str,
) -> Deployment:
    """A bundle that answers for graphs."""
    how = answering(task, model)
    known = None if dataset is None else chosen_of(dataset)
    graphs = [] if known is None else known.graphs[:SAMPLES]
    told = ", ".join(labels(task)[:20])
    what = {"classification": "Of which class a graph is", "binary": "Yes or no", "regression": "Numbers"}[task.kind]
    card = deploy.card_of(
        f"{type(model).__name__}: {what.lower()}",
        f"{what}, from {how.form.features} features of its nodes and {how.form.attributes} of its edges "
        f"({recipe.model.target}): {told}.",
        recipe,
        metrics,
        protocol="Over all graphs of a split; weights were chosen as the recipe says (train.monitor and test_weights).",
        use=_FOLDERS if task.molecules is None else _MOLECULES,
        licence=licence,
    )
    samples: Sequence[Any] = [
        {"graph": deploy.folder_of(graph, f"graph {number}")} for number, graph in enumerate(graphs)
    ]
    if task.molecules is not None:
        samples = [{"smiles": each} for each in (SOME if known is None else known.smiles[:SAMPLES])]
    return deploy.deployment(
        how, graphs[0] if graphs else None, labels=labels(task), card=card, licence=licence, about=recipe.identity(),
        samples=samples or None,
    )  # fmt: skip


def deployed(model: Any, graph: Any) -> pdl.Tensor:
    """What a bundle says of the graphs of a batch, one after the other: [G, outputs]."""
    names = [port.name for port in model.session.inputs]
    return pdl.concat([model(*deploy.as_inputs(names, each, None)) for each in apart(graph)], axis=0)


def apart(graph: GraphBatch) -> list[GraphBatch]:
    """The graphs of a batch, each as one of its own."""
    a = graph.adjacency
    ends = np.searchsorted(graph.graph, np.arange(graph.num_graphs + 1))
    made = []
    for low, high in pairwise(ends.tolist()):
        indptr = a.indptr[low : high + 1] - a.indptr[low]
        edges = slice(int(a.indptr[low]), int(a.indptr[high]))
        pattern = CSR.from_rows(indptr, a.indices[edges] - low, int(high - low))
        cut: dict[str, Any] = {
            name: None if (v := getattr(graph, name)) is None else v[edges] for name in ("edge_weight", "edge_attr")
        }
        made.append(GraphBatch(pattern, graph.x[low:high], **cut))
    return made


def write_example(task: GraphPrediction, loaders: Mapping[str, Any], folder: Path) -> str:
    """The first graph of the test data as a folder in the run, or its first molecules as a table, to put behind `pdl
    predict RUN`."""
    loader = loaders.get("test") or loaders.get("val") or loaders["train"]
    if task.molecules is not None:
        table = folder / "example_molecules.csv"
        _write(table, ["smiles"], [[each] for each in chosen_of(loader.dataset).smiles[:SAMPLES]])
        return str(table)
    batch = next(iter(loader))["graph"]
    one = apart(batch)[0]
    place = folder / "example_graph"
    place.mkdir(exist_ok=True)
    a, n = one.adjacency, one.num_nodes
    keep = (a.indices != a.row) if task.self_loops else a.indices >= 0
    if not task.directed:
        keep &= a.indices <= a.row
    attributes = None if one.edge_attr is None else one.edge_attr[keep]
    head = ["source", "target", *(f"a{i}" for i in range(0 if attributes is None else attributes.shape[1]))]
    rows = [
        [int(s), int(t), *([] if attributes is None else map(float, attributes[i]))]
        for i, (s, t) in enumerate(zip(a.indices[keep], a.row[keep], strict=True))
    ]
    _write(place / "edges.csv", head, rows)
    _write(place / "nodes.csv", ["id", *(f"x{i}" for i in range(one.x.shape[1]))], [
        [node, *map(float, one.x[node])] for node in range(n)
    ])  # fmt: skip
    return f"--new-graph {place}"


def _write(path: Path, head: Sequence[Any], rows: Sequence[Sequence[Any]]) -> None:
    text = "\n".join(",".join(map(_cell, row)) for row in (head, *rows))
    path.write_text(text + "\n", encoding="utf-8")


def _cell(value: Any) -> str:
    return f"{value:.9g}" if isinstance(value, float) else str(value)


__all__ = ["answering", "deployed", "deployment", "form_of", "labels", "write_example"]
