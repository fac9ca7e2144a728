"""What of an embedding goes into a bundle: the nodes most like a node, the probability of an edge."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

import pdl
from pdl.export.deployment import Deployment
from pdl.nn import Module
from pdl.report import Card
from pdl.runtime.predict import Predictor
from pdl.runtime.tables import csv_line
from pdl.tensor import Tensor
from pdl.train import Deployer
from pdl_graph.embedding.decoders import PairDecoder
from pdl_graph.embedding.predictor import NodesAndPairs
from pdl_graph.models.skip_gram import SkipGram
from pdl_graph.node_table import NODES, NodeTable

if TYPE_CHECKING:
    from pdl_graph.embedding.task import NodeEmbedding

SIMILARITY, SCORES, LOGIT = "similarity", "scores", "logit"
EDGE, POST = ["edge"], ({"step": "probabilities"},)
NEAREST: dict[str, Any] = {"vocabulary": NODES, "k": 10, "exclude": "query", "one": "node", "many": "nodes"}
PAIR_PROTOCOL = (
    "Areas under curves over the edges of a split and as many pairs without an edge (ties count a half). Vectors were "
    "learned of the training edges alone, and a logistic regression on those of two nodes of these edges and as many "
    "pairs without one."
)
LABEL_PROTOCOL = (
    "Vectors were learned of all edges and no labels; one logistic regression for each label of the training nodes. A "
    "node is given its best labels, as many as it has; F1 over all of them (micro) and its mean over labels (macro)."
)


class EmbeddingDeployer(Deployer):
    """Of a run on pairs the probability of an edge, of one on labels the nodes most like a node (and the labels'
    logits, as an output of its own); for the nodes of the run's own graph, by name."""

    task: NodeEmbedding

    @property
    def _pairs(self) -> bool:
        return not self.task.classes

    def deployment(self, model: Module, dataset: Any = None) -> Deployment:
        assert isinstance(model, SkipGram)
        beside = {} if self._pairs else {SCORES: self.task.decoder(model)}
        return self._table(model, "pair" if self._pairs else "node").deployment(self.recipe.identity(), beside=beside)

    def _table(self, model: SkipGram, kind: Literal["node", "pair"]) -> NodeTable:
        """How an embedding answers for a node or for a pair."""
        with pdl.no_grad():
            vectors = np.array(model.vectors().data)
        names = self.task.vocabularies[NODES]
        if kind == "pair":
            decoder = self.task.decoder(model)
            assert isinstance(decoder, PairDecoder)
            return NodeTable("pair", names, vectors, decoder, LOGIT, POST, labels=EDGE, decoder=decoder)
        return NodeTable("node", names, vectors, nearest, SIMILARITY, ({"step": "top_names", **NEAREST},))

    def predictor(self, model: Module) -> Predictor:
        """As the bundle; of a run on pairs for nodes, too."""
        if not self._pairs:
            return self.deployment(model)
        assert isinstance(model, SkipGram)
        tables = {kind: lambda kind=kind: self._table(model, kind).deployment() for kind in ("node", "pair")}
        return NodesAndPairs(tables, self.task.vocabularies, NEAREST)

    def card(self, model: Module) -> Card:
        assert isinstance(model, SkipGram)
        what = (
            "The probability of an edge between two nodes" if self._pairs else "The nodes most like a node, by cosine"
        )
        query, command = ('{"pair": ["a", "b"]}', "--pairs a:b") if self._pairs else ('"a"', "--nodes a")
        return Card(
            title=f"{type(model).__name__}: vectors of {len(self.task.vocabularies[NODES]):,} nodes",
            summary=f"{what}, for the nodes of its own graph, by name ({self.recipe.model.target}, {model.dim} numbers "
            "a node).",
            protocol=PAIR_PROTOCOL if self._pairs else LABEL_PROTOCOL,
            use=f'    session = pdl.runtime.load("model.pdl")\n    session({query})\n\n'
            f"or `pdl predict model.pdl {command}`.",
            data=self.learned_from,
        )

    def example(self, loaders: Mapping[str, Any], folder: Path) -> str:
        """The first two nodes."""
        return f"--nodes {shlex.quote(csv_line(self.task.vocabularies[NODES].names[:2]))}"


def nearest(vectors: Tensor, query: Tensor) -> Tensor:
    """Cosines of the vectors of nodes, rows int64 [n, 1], with all: [n, N + 1]; 0 for row 0."""
    lengths = pdl.sqrt(pdl.maximum(pdl.square(vectors).sum(axis=1, keepdims=True), 1e-12))
    units = vectors / lengths
    return pdl.matmul(pdl.take(units, query[:, 0]), pdl.swapaxes(units, 0, 1))


def deployed_logits(model: Any, batch: Mapping[str, Any]) -> Tensor:
    """What a bundle says of pairs [P, 2] or nodes [B]: the regression's logits."""
    if "pair" in batch:
        return model(pdl.Tensor(np.asarray(batch["pair"]) + 1))  # type: ignore[no-any-return]
    at = [port.name for port in model.session.outputs].index(SCORES)
    parts = np.array_split(np.asarray(batch["node"])[:, None] + 1, max(1, len(batch["node"]) // 256))
    return pdl.concat([model(pdl.Tensor(part))[at] for part in parts], axis=0)
