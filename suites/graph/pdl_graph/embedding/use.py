"""An embedding in use: the nodes most like a node, the chance of an edge, its bundle; and what stands beside it."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

import pdl
from pdl.data import Fault
from pdl.export.deployment import Deployment
from pdl.runtime.tables import csv_line
from pdl.tensor import Tensor
from pdl.train import Recipe
from pdl_graph import deploy, named
from pdl_graph.data.base import graph_of, nodes_of, unwrap
from pdl_graph.data.check import check_recipe
from pdl_graph.data.edges import EdgeSplit
from pdl_graph.embedding.decoders import rows_of_labels
from pdl_graph.embedding.metrics import TopF1
from pdl_graph.models.skip_gram import SkipGram
from pdl_graph.node.baselines import label_propagation, majority

if TYPE_CHECKING:
    from pdl_graph.embedding.task import NodeEmbedding

SIMILARITY, SCORES, LOGIT = "similarity", "scores", "logit"
EDGE, POST = ["edge"], ({"step": "probabilities"},)
NEAREST: dict[str, Any] = {"vocabulary": named.NODES, "k": 10, "exclude": "ask", "one": "node", "many": "nodes"}
LINKS = (
    "Areas under curves over the edges of a split and as many pairs without an edge (ties count a half). Vectors were "
    "learned of the training edges alone, and a logistic regression on those of two nodes of these edges and as many "
    "pairs without one."
)
LABELS = (
    "Vectors were learned of all edges and no labels; one logistic regression for each label of the training nodes. A "
    "node is given its best labels, as many as it has; F1 over all of them (micro) and its mean over labels (macro)."
)


def nearest(vectors: Tensor, ask: Tensor) -> Tensor:
    """Cosines of the vectors of nodes, rows int64 [n, 1], with all: [n, N + 1]; 0 for row 0."""
    lengths = pdl.sqrt(pdl.maximum(pdl.square(vectors).sum(axis=1, keepdims=True), 1e-12))
    units = vectors / lengths
    return pdl.matmul(pdl.take(units, ask[:, 0]), pdl.swapaxes(units, 0, 1))


def known(task: NodeEmbedding, model: SkipGram, kind: str) -> named.Known:
    """How an embedding answers for a node or for a pair."""
    with pdl.no_grad():
        vectors = np.array(model.vectors().data)
    names = task.vocabularies[named.NODES]
    if kind == "pair":
        decoder = task.decoder(model)
        return named.Known(
            kind="pair", names=names, vectors=vectors, answer=decoder, output=LOGIT, post=POST,
            labels=EDGE, decoder=decoder,
        )  # fmt: skip
    top = {"step": "top_names", **NEAREST}
    return named.Known(kind="node", names=names, vectors=vectors, answer=nearest, output=SIMILARITY, post=(top,))


def deployment(
    task: NodeEmbedding, model: Any, recipe: Recipe, *, metrics: Mapping[str, float | None], licence: str
) -> Deployment:
    """A bundle: of a run on pairs the chance of an edge, of one on labels the nodes most like a node (and the labels'
    logits, as an output of its own)."""
    assert isinstance(model, SkipGram)
    links = not task.classes
    how = known(task, model, "pair" if links else "node")
    what = "The probability of an edge between two nodes" if links else "The nodes most like a node, by cosine"
    ask, command = ('{"pair": ["a", "b"]}', "--pairs a:b") if links else ('"a"', "--nodes a")
    card = deploy.card_of(
        f"{type(model).__name__}: vectors of {len(how.names):,} nodes",
        f"{what}, for the nodes of its own graph, by name ({recipe.model.target}, {model.dim} numbers a node).",
        recipe,
        metrics,
        protocol=LINKS if links else LABELS,
        use=f'    session = pdl.runtime.load("model.pdl")\n    session({ask})\n\nor `pdl predict model.pdl {command}`.',
        licence=licence,
    )
    beside = {} if links else {SCORES: task.decoder(model)}
    return named.deployment(how, card=card, licence=licence, about=recipe.identity(), beside=beside)


def deployed_logits(model: Any, batch: Mapping[str, Any]) -> Tensor:
    """What a bundle says of pairs [P, 2] or nodes [B]: the regression's logits."""
    if "pair" in batch:
        return model(pdl.Tensor(np.asarray(batch["pair"]) + 1))  # type: ignore[no-any-return]
    at = [port.name for port in model.session.outputs].index(SCORES)
    parts = np.array_split(np.asarray(batch["node"])[:, None] + 1, max(1, len(batch["node"]) // 256))
    return pdl.concat([model(pdl.Tensor(part))[at] for part in parts], axis=0)


def example(task: NodeEmbedding) -> str:
    """The first two nodes, to put behind `pdl predict RUN`."""
    return f"--nodes {shlex.quote(csv_line(task.vocabularies[named.NODES].names[:2]))}"


def check(recipe: Recipe, progress: Any = None) -> list[Fault]:
    """What is wrong with the pairs, or the nodes, of a recipe."""
    if recipe.data.source is not None and issubclass(recipe.data.source.cls, EdgeSplit):
        from pdl_graph.link.check import check as check_links

        return check_links(recipe, progress)
    return check_recipe(recipe, progress)


def baselines(task: NodeEmbedding, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
    """Of pairs those of `LinkPrediction`; of labels the most frequent ones, and label propagation."""
    if not task.classes:
        from pdl_graph.link.baselines import baselines as of_links

        return of_links(datasets[split], task.hits)
    graph, nodes, asked = graph_of(datasets["train"]), nodes_of(datasets["train"]), nodes_of(datasets[split])
    y = rows_of_labels(np.asarray(unwrap(datasets["train"])[0].y), len(task.classes))
    methods = {
        "majority": majority(y[nodes].astype(np.float64), graph.num_nodes),
        "label propagation": label_propagation(graph, nodes, y[nodes]),
    }
    found: dict[str, dict[str, float]] = {}
    for name, scores in methods.items():
        found[name] = {}
        for key, metric in task.metrics().items():
            assert isinstance(metric, TopF1)
            metric.update(scores[asked], y[asked])
            found[name][key] = metric.compute()
    return found


__all__ = [
    "baselines",
    "check",
    "deployed_logits",
    "deployment",
    "example",
    "known",
    "nearest",
]
