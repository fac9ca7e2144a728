"""What the report says of a knowledge graph: the measures by direction, by kind of relation, and by relation."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.report import Section, table
from pdl.train import Evaluation, Reporter
from pdl.vocabulary import Vocabulary
from pdl_graph.knowledge.loader import Queries
from pdl_graph.knowledge.metrics import measure, names

if TYPE_CHECKING:
    from pdl_graph.knowledge.task import KnowledgeGraph

SHOWN = 40  # relations
MANY = 1.5  # tails a head (or heads a tail), on average: from here on a relation is one to many


class KnowledgeReporter(Reporter):
    """Filtered ranking by direction, by kind of relation and by relation."""

    task: KnowledgeGraph

    def sections(self, evaluation: Evaluation, dataset: Any) -> list[Section]:
        found = evaluation.details.get("ranks")
        if not isinstance(dataset, Queries) or found is None or len(found) != len(dataset):
            return []
        task, measures = self.task, names(self.task.cutoffs)
        whole = [_row("all", found, measures)]
        whole += [_row(label, found[dataset.inverse == way], measures) for way, label in ((0, "tails"), (1, "heads"))]
        body = f"{table(whole, head=('', *measures, 'queries'))}<p>{escape(task.protocol())}</p>"
        made = [Section(f"Filtered ranking ({evaluation.split})", body)]
        train = task.known.get("train")
        if train is not None and len(train):
            made.append(Section("By kind of relation", _by_kind(dataset, found, train, measures)))
        by_relation = _by_relation(dataset, found, task.vocabularies["relations"], measures)
        return [*made, Section("By relation", by_relation)]


def _row(label: str, found: np.ndarray, measures: Sequence[str]) -> tuple[Any, ...]:
    return (label, *(measure(found, kind) if len(found) else float("nan") for kind in measures), len(found))


def cardinality(facts: np.ndarray, num_relations: int) -> np.ndarray:
    """The kind of each relation, int64 [num_relations + 1], 2 a + b: a is 1 where a tail has, on average, 1.5 heads or
    more, b where a head has so many tails: 0 is 1-to-1, 1 is 1-to-N, 2 is N-to-1, 3 is N-to-N. Bordes et al., NIPS
    2013, section 4.3."""
    facts = np.unique(facts, axis=0)
    count = np.bincount(facts[:, 1], minlength=num_relations + 1)
    kinds = np.zeros(num_relations + 1, np.int64)
    for column, weight in ((2, 2), (0, 1)):
        pairs = np.unique(facts[:, [1, column]], axis=0)
        different = np.bincount(pairs[:, 0], minlength=num_relations + 1)
        kinds += weight * (count >= MANY * np.maximum(different, 1))
    return kinds


def _by_kind(data: Queries, found: np.ndarray, train: np.ndarray, measures: Sequence[str]) -> str:
    size = int(max(train[:, 1].max(), data.relation.max(initial=0)))
    kind = cardinality(train, size)[data.relation]
    rows = []
    for number, label in enumerate(("1-to-1", "1-to-N", "N-to-1", "N-to-N")):
        for way, side in ((0, "tails"), (1, "heads")):
            inside = (kind == number) & (data.inverse == way)
            if inside.any():
                rows.append(_row(f"{label}, {side}", found[inside], measures))
    note = f"1-to-N: in training a head has {MANY} tails or more, on average."
    return f"{table(rows, head=('', *measures, 'queries'))}<p>{note}</p>"


def _by_relation(data: Queries, found: np.ndarray, relations: Vocabulary, measures: Sequence[str]) -> str:
    number, count = np.unique(data.relation, return_counts=True)
    order = np.argsort(-count, kind="stable")[:SHOWN]
    names = {r: relations.decode(int(r)) if r else "(unknown)" for r in number[order]}
    rows = [_row(name, found[data.relation == r], measures) for r, name in names.items()]
    note = f"<p>The {SHOWN} most frequent of {len(number)}.</p>" if len(number) > SHOWN else ""
    return table(rows, head=("relation", *measures, "queries")) + note
