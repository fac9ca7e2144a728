"""What of a model of a knowledge graph goes into a bundle: answers to queries by name."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.dims import Dim
from pdl.dtype import int64
from pdl.errors import listed
from pdl.export.deployment import Deployment
from pdl.nn import Module
from pdl.ops.base import Spec
from pdl.report import Card
from pdl.runtime.tables import csv_line
from pdl.train import Deployer
from pdl_graph.data.triples import KINDS, triples_of
from pdl_graph.knowledge.loader import Queries
from pdl_graph.steps.triples import PARTS

if TYPE_CHECKING:
    from pdl_graph.knowledge.task import KnowledgeGraph

OUTPUT, SAMPLES = "scores", 8
TOP = {"step": "top_names", "vocabulary": "entities", "k": 10, "one": "entity", "many": "entities"}
UNFILTERED = (
    "Answers are not filtered: entities that training knows to answer stand among them, as the file does not hold the "
    "facts."
)


class KnowledgeDeployer(Deployer):
    """Queries about the graph's own entities and relations, by name; the best entities as answers."""

    task: KnowledgeGraph

    def deployment(self, model: Module, dataset: Any = None) -> Deployment:
        n = Dim.symbol("n", 3)
        return Deployment(
            module=model,
            inputs={part: Spec((n,), int64) for part in PARTS},
            outputs=(OUTPUT,),
            pre={part: [{"step": "triple_query", "part": part}] for part in PARTS},
            post={OUTPUT: [dict(TOP)]},
            samples=self._samples(dataset),
            vocabularies={kind: self.task.vocabularies[kind] for kind in KINDS},
            about={**self.recipe.identity(), "parameters": sum(p.size for p in model.parameters())},
        )

    def card(self, model: Module) -> Card:
        entities, relations = (self.task.vocabularies[kind] for kind in KINDS)
        shown = listed(relations.names, 20)
        sample = self._samples(None)[0]
        return Card(
            title=f"{type(model).__name__}: completion of a knowledge graph",
            summary=f"Ranks the {len(entities):,} entities of one knowledge graph as tails of (head, relation, ?) or "
            f"heads of (?, relation, tail) ({self.recipe.model.target}). It knows {len(relations):,} relations: "
            f"{shown}. {UNFILTERED} Scores order the answers to one query; they are no probabilities.",
            protocol=self.task.protocol(),
            use=f'    session = pdl.runtime.load("model.pdl")\n    session({sample!r})["entities"]\n\n'
            f"or `pdl predict model.pdl {as_option(sample)}`, or `pdl predict model.pdl queries.csv`: a table with "
            "the columns head, relation, tail, of which head or tail is empty or not there.",
            data=self.learned_from,
        )

    def example(self, loaders: Mapping[str, Any], folder: Path) -> str:
        """A query of the test data."""
        loader = loaders.get("test") or loaders.get("val") or loaders["train"]
        facts = self._facts(loader.dataset)
        return as_option(self._query(facts[0], inverse=False)) if len(facts) else "--row head=...,relation=..."

    def _samples(self, dataset: Any) -> list[dict[str, str]]:
        """Some queries of the data, for tails and heads in turn; without any, of the first names."""
        facts = self._facts(dataset)
        sizes = [len(self.task.vocabularies[kind]) for kind in KINDS]
        if not len(facts):
            rows = np.arange(SAMPLES)
            facts = 1 + np.stack([rows % sizes[0], rows % sizes[1], (rows + 1) % sizes[0]], axis=1)
        count = min(SAMPLES, len(facts))
        chosen = facts[np.arange(count) * len(facts) // count]
        return [self._query(fact, inverse=bool(number % 2)) for number, fact in enumerate(chosen)]

    def _facts(self, dataset: Any) -> np.ndarray:
        """Those of a data set (or of a loader's queries) whose names are known, by the task's numbers: [T, 3]."""
        if dataset is None:
            return np.zeros((0, 3), np.int64)
        base, _ = triples_of(dataset.dataset if isinstance(dataset, Queries) else dataset)
        base.bind(self.task.vocabularies)
        facts: np.ndarray = base.triples
        return facts[(facts > 0).all(axis=1)]

    def _query(self, fact: Any, *, inverse: bool) -> dict[str, str]:
        """A fact (head, relation, tail) by number, as a row that asks for its tail or its head."""
        entities, relations = (self.task.vocabularies[kind] for kind in KINDS)
        head, relation, tail = (int(number) for number in fact)
        if inverse:
            return {"relation": relations.decode(relation), "tail": entities.decode(tail)}
        return {"head": entities.decode(head), "relation": relations.decode(relation)}


def as_option(query: Mapping[str, str]) -> str:
    """`--row head=a,relation=r`, for a shell."""
    return f"--row {shlex.quote(csv_line([f'{name}={value}' for name, value in query.items()]))}"
