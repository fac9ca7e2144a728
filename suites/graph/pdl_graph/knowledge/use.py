"""A model of a knowledge graph in use: its answers to questions by name, and its bundle."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.dims import Dim
from pdl.dtype import int64
from pdl.export.deployment import Deployment
from pdl.nn import Module
from pdl.ops.base import Spec
from pdl.runtime.tables import csv_line
from pdl.train import Recipe
from pdl_graph.data.triples import KINDS, triples_of
from pdl_graph.deploy import card_of
from pdl_graph.knowledge.loader import Questions
from pdl_graph.steps.triples import PARTS

if TYPE_CHECKING:
    from pdl_graph.knowledge.task import KnowledgeGraph

OUTPUT, SAMPLES = "scores", 8
TOP = {"step": "top_names", "vocabulary": "entities", "k": 10, "one": "entity", "many": "entities"}
KNOWN = (
    "Answers are not filtered: entities that training knows to answer stand among them, as the file does not hold the "
    "facts."
)


def steps() -> dict[str, Any]:
    """The pipeline, as plain values: a question to its three numbers; scores to the best entities."""
    pre = {part: [{"step": "triple_query", "part": part}] for part in PARTS}
    return {"pre": pre, "post": {OUTPUT: [dict(TOP)]}}


def deployment(
    task: KnowledgeGraph,
    model: Module,
    recipe: Recipe,
    *,
    dataset: Any = None,
    metrics: Mapping[str, float | None] | None = None,
    licence: str = "",
) -> Deployment:
    """A bundle that answers questions about the graph's own entities and relations, by name."""
    entities, relations = (task.vocabularies[kind] for kind in KINDS)
    around, n = steps(), Dim.symbol("n", 3)
    samples = _samples(task, dataset)
    shown = ", ".join(relations.names[:20]) + (", ..." if len(relations) > 20 else "")
    card = card_of(
        f"{type(model).__name__}: what a knowledge graph does not say yet",
        f"Ranks the {len(entities):,} entities of one knowledge graph as tails of (head, relation, ?) or heads of "
        f"(?, relation, tail) ({recipe.model.target}). It knows {len(relations):,} relations: {shown}. {KNOWN} "
        "Scores order the answers to one question; they are no probabilities.",
        recipe,
        metrics or {},
        protocol=task.protocol(),
        use=f'    session = pdl.runtime.load("model.pdl")\n    session({samples[0]!r})["entities"]\n\n'
        f"or `pdl predict model.pdl {as_option(samples[0])}`, or `pdl predict model.pdl questions.csv`: a table with "
        "the columns head, relation, tail, of which head or tail is empty or not there.",
        licence=licence,
    )
    return Deployment(
        module=model,
        inputs={part: Spec((n,), int64) for part in PARTS},
        outputs=(OUTPUT,),
        pre=around["pre"],
        post=around["post"],
        samples=samples,
        vocabularies={kind: task.vocabularies[kind] for kind in KINDS},
        card=card,
        licence=licence,
        about={**recipe.identity(), "parameters": sum(p.size for p in model.parameters())},
    )


def _samples(task: KnowledgeGraph, dataset: Any) -> list[dict[str, str]]:
    """Some questions of the data, for tails and heads in turn; without any, of the first names."""
    facts = _facts(task, dataset)
    sizes = [len(task.vocabularies[kind]) for kind in KINDS]
    if not len(facts):
        rows = np.arange(SAMPLES)
        facts = 1 + np.stack([rows % sizes[0], rows % sizes[1], (rows + 1) % sizes[0]], axis=1)
    count = min(SAMPLES, len(facts))
    chosen = facts[np.arange(count) * len(facts) // count]
    return [_question(task, fact, inverse=bool(number % 2)) for number, fact in enumerate(chosen)]


def _facts(task: KnowledgeGraph, dataset: Any) -> np.ndarray:
    """Those of a data set (or of a loader's questions) whose names are known, by the task's numbers: [T, 3]."""
    if dataset is None:
        return np.zeros((0, 3), np.int64)
    base, _ = triples_of(dataset.dataset if isinstance(dataset, Questions) else dataset)
    base.bind(task.vocabularies)
    facts: np.ndarray = base.triples
    return facts[(facts > 0).all(axis=1)]


def _question(task: KnowledgeGraph, fact: Any, *, inverse: bool) -> dict[str, str]:
    """A fact (head, relation, tail) by number, as a row that asks for its tail or its head."""
    entities, relations = (task.vocabularies[kind] for kind in KINDS)
    head, relation, tail = (int(number) for number in fact)
    if inverse:
        return {"relation": relations.decode(relation), "tail": entities.decode(tail)}
    return {"head": entities.decode(head), "relation": relations.decode(relation)}


def as_option(question: Mapping[str, str]) -> str:
    """`--row head=a,relation=r`, for a shell."""
    return f"--row {shlex.quote(csv_line([f'{name}={value}' for name, value in question.items()]))}"


def example(task: KnowledgeGraph, loaders: Mapping[str, Any]) -> str:
    """A question of the test data, to put behind `pdl predict RUN`."""
    loader = loaders.get("test") or loaders.get("val") or loaders["train"]
    known = _facts(task, loader.dataset)
    return as_option(_question(task, known[0], inverse=False)) if len(known) else "--row head=...,relation=..."


__all__ = ["as_option", "deployment", "example", "steps"]
