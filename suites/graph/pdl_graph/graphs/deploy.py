"""What of a model of whole graphs goes into a bundle."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import pdl
from pdl.export.deployment import Deployment
from pdl.nn import Module
from pdl.ops import CSR
from pdl.report import Card
from pdl.train import Deployer
from pdl_graph.batch import GraphBatch
from pdl_graph.deployment import InductiveModel, bundle_inputs, folder_of
from pdl_graph.graphs.loader import chosen_of
from pdl_graph.steps.graphs import Form

if TYPE_CHECKING:
    from pdl_graph.graphs.task import GraphPrediction

SAMPLES = 8
SMILES = ("CCO", "c1ccccc1", "CC(=O)Nc1ccc(O)cc1")
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


class GraphDeployer(Deployer):
    """Scores of classes, probabilities or numbers for a graph: a folder, or a molecule."""

    task: GraphPrediction

    def inductive(self, model: Module) -> InductiveModel:
        """How a model answers for a graph."""
        task = self.task
        molecules = task.molecules
        return InductiveModel(
            model=model,
            kind="graph",
            encode=lambda graph: model(graph),
            answer=lambda found, query: found,
            form=self.form,
            weighted=bool(task.weighted),
            output="scores" if task.kind != "regression" else "values",
            post=self._post(),
            labels=self.labels,
            reads=None if molecules is None else {
                "step": "smiles", **molecules.plain(), "self_loops": task.self_loops,
            },
        )  # fmt: skip

    def _post(self) -> list[dict[str, Any]]:
        """The steps behind a model's outputs."""
        task = self.task
        if task.kind == "classification":
            return [{"step": "softmax"}, {"step": "top", "k": min(5, len(task.classes))}]
        if task.kind == "binary":
            return [{"step": "probabilities"}]
        return [{"step": "values", "scale": list(map(float, task.std)), "shift": list(map(float, task.mean))}]

    @property
    def labels(self) -> list[str]:
        """What the answers are called."""
        return list(self.task.classes if self.task.kind == "classification" else self.task.targets)

    @property
    def form(self) -> Form:
        """How folders become what the model reads."""
        task = self.task
        return Form(
            features=task.sizes.get("num_features", 0),
            directed=bool(task.directed),
            self_loops=task.self_loops,
            attributes=task.sizes.get("num_edge_features", 0),
        )

    def deployment(self, model: Module, dataset: Any = None) -> Deployment:
        chosen = None if dataset is None else chosen_of(dataset)
        graphs = [] if chosen is None else chosen.graphs[:SAMPLES]
        samples: Sequence[Any] = [{"graph": folder_of(graph, f"graph {n}")} for n, graph in enumerate(graphs)]
        if self.task.molecules is not None:
            samples = [{"smiles": each} for each in (SMILES if chosen is None else chosen.smiles[:SAMPLES])]
        graph = graphs[0] if graphs else None
        return self.inductive(model).deployment(graph, self.recipe.identity(), samples=samples or None)

    def card(self, model: Module) -> Card:
        task, form = self.task, self.form
        kinds = {"classification": "The class of a graph", "binary": "Yes or no", "regression": "Numbers"}
        return Card(
            title=f"{type(model).__name__}: {kinds[task.kind].lower()}",
            summary=f"{kinds[task.kind]}, from {form.features} features of its nodes and {form.attributes} of its "
            f"edges ({self.recipe.model.target}): {', '.join(self.labels[:20])}.",
            protocol="Over all graphs of a split.",
            use=_FOLDERS if task.molecules is None else _MOLECULES,
            data=self.learned_from,
        )

    def example(self, loaders: Mapping[str, Any], folder: Path) -> str:
        """The first graph of the test data as a folder in the run, or its first molecules as a table."""
        loader = loaders.get("test") or loaders.get("val") or loaders["train"]
        if self.task.molecules is not None:
            table = folder / "example_molecules.csv"
            _write(table, ["smiles"], [[each] for each in chosen_of(loader.dataset).smiles[:SAMPLES]])
            return shlex.quote(str(table))
        place = folder / "example_graph"
        place.mkdir(exist_ok=True)
        self._write_graph(apart(next(iter(loader))["graph"])[0], place)
        return f"--new-graph {shlex.quote(str(place))}"

    def _write_graph(self, graph: GraphBatch, place: Path) -> None:
        """edges.csv and nodes.csv."""
        a, n = graph.adjacency, graph.num_nodes
        keep = (a.indices != a.row) if self.task.self_loops else a.indices >= 0
        if not self.task.directed:
            keep &= a.indices <= a.row
        attributes = None if graph.edge_attr is None else graph.edge_attr[keep]
        head = ["source", "target", *(f"a{i}" for i in range(0 if attributes is None else attributes.shape[1]))]
        rows = [
            [int(s), int(t), *([] if attributes is None else map(float, attributes[i]))]
            for i, (s, t) in enumerate(zip(a.indices[keep], a.row[keep], strict=True))
        ]
        _write(place / "edges.csv", head, rows)
        _write(place / "nodes.csv", ["id", *(f"x{i}" for i in range(graph.x.shape[1]))], [
            [node, *map(float, graph.x[node])] for node in range(n)
        ])  # fmt: skip


def deployed_outputs(model: Any, graph: Any) -> pdl.Tensor:
    """What a bundle says of the graphs of a batch, one after the other: [G, outputs]."""
    names = [port.name for port in model.session.inputs]
    return pdl.concat([model(*bundle_inputs(names, each, None)) for each in apart(graph)], axis=0)


def apart(graph: GraphBatch) -> list[GraphBatch]:
    """The single graphs of a batch."""
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


def _write(path: Path, head: Sequence[Any], rows: Sequence[Sequence[Any]]) -> None:
    text = "\n".join(",".join(map(_cell, row)) for row in (head, *rows))
    path.write_text(text + "\n", encoding="utf-8")


def _cell(value: Any) -> str:
    return f"{value:.9g}" if isinstance(value, float) else str(value)
