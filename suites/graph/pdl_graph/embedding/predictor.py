"""What a run of an embedding answers by: of one on pairs more than its bundle, which answers for pairs alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.export.deployment import Deployment
from pdl.nn import Module
from pdl.runtime.pipeline import Pipeline
from pdl.runtime.predict import Predictor
from pdl.runtime.steps import Flag, Input, InputStep, Resources, Sample
from pdl.runtime.steps.labels import Probabilities, TopNames
from pdl.train import Recipe
from pdl_graph import named
from pdl_graph.embedding import use
from pdl_graph.models.skip_gram import SkipGram
from pdl_graph.steps.nodes import NodeInput

if TYPE_CHECKING:
    from pdl_graph.embedding.task import NodeEmbedding


def predictor(task: NodeEmbedding, model: Module, recipe: Recipe) -> Predictor:
    """What a run answers by: one on pairs answers for nodes, too."""
    assert isinstance(model, SkipGram)
    if task.classes:
        return use.deployment(task, model, recipe, metrics={}, licence="")
    return NodesAndPairs(task, model)


class NodesAndPairs:
    """A run that knows the nodes most like a node and the probability of an edge between two."""

    def __init__(self, task: NodeEmbedding, model: SkipGram) -> None:
        self.task, self.model = task, model
        step, top, probabilities = NodeOrPair(named.NODES), TopNames(**use.NEAREST), Probabilities()
        for each in (step, top, probabilities):
            each.bind(Resources(use.EDGE, task.vocabularies))
        self.pipeline = Pipeline({"ask": [step]}, {use.SIMILARITY: [top], use.LOGIT: [probabilities]})
        self._deployed: dict[str, Deployment] = {}

    def run(self, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Of nodes [n, 1] their likeness to all, of pairs [n, 2] the logit of an edge; each is made ready when it is
        first asked for."""
        kind = "pair" if inputs["ask"].shape[1] == 2 else "node"
        if kind not in self._deployed:
            how = use.known(self.task, self.model, kind)
            self._deployed[kind] = named.deployment(how, card="", licence="", about={})
        return self._deployed[kind].run(inputs)


class NodeOrPair(InputStep):
    """Names of nodes, or of pairs of them: {"node": name} or a name, and {"pair": [name, name]}."""

    name, takes, about = "node_or_pair", "node", "a file with a node on each line"

    def __init__(self, vocabulary: str) -> None:
        self.node, self.pair = NodeInput(vocabulary, "node"), NodeInput(vocabulary, "pair")

    def bind(self, resources: Resources) -> None:
        self.node.bind(resources)
        self.pair.bind(resources)

    def _step(self, item: Any) -> NodeInput:
        return self.pair if isinstance(item, Mapping) and "pair" in item else self.node

    def parse(self, item: Any, sample: Sample) -> np.ndarray:
        return self._step(item).parse(item, sample)

    def title(self, item: Any) -> str:
        return self._step(item).title(item)

    def file(self, path: str | Path) -> Iterator[Input]:
        return self.node.file(path)

    @property
    def flags(self) -> tuple[Flag, ...]:
        return (*self.node.flags, *self.pair.flags)

    def from_flags(self, values: Mapping[str, Sequence[str]]) -> list[Any]:
        return [*self.node.from_flags(values), *self.pair.from_flags(values)]


__all__ = ["NodesAndPairs", "predictor"]
