"""What the report says of a knowledge graph: the measures by direction, by kind of relation, and by relation."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from pdl.report import Section, table
from pdl.train.loop import Evaluation
from pdl.vocabulary import Vocabulary
from pdl_graph.knowledge.loader import Questions
from pdl_graph.knowledge.ranking import measure, names

SHOWN = 40  # relations
MANY = 1.5  # tails a head (or heads a tail), on average: from here on a relation is one to many


def sections(
    evaluation: Evaluation, dataset: Any, relations: Vocabulary, *, train: np.ndarray | None,
    cutoffs: Sequence[int], protocol: str,
) -> list[Section]:  # fmt: skip
    """The sections on one evaluation; `dataset` tells the questions."""
    found = evaluation.details.get("ranks")
    if not isinstance(dataset, Questions) or found is None or len(found) != len(dataset):
        return []
    kinds = names(cutoffs)
    head = ("", *kinds, "questions")
    whole = [_row("all", found, kinds)]
    whole += [_row(label, found[dataset.inverse == way], kinds) for way, label in ((0, "tails"), (1, "heads"))]
    made = [Section(f"Filtered ranking ({evaluation.split})", f"{table(whole, head=head)}<p>{escape(protocol)}</p>")]
    if train is not None and len(train):
        made.append(Section("By kind of relation", _by_kind(dataset, found, train, kinds)))
    made.append(Section("By relation", _by_relation(dataset, found, relations, kinds)))
    return made


def _row(label: str, found: np.ndarray, kinds: Sequence[str]) -> tuple[Any, ...]:
    return (label, *(measure(found, kind) if len(found) else float("nan") for kind in kinds), len(found))


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


def _by_kind(data: Questions, found: np.ndarray, train: np.ndarray, kinds: Sequence[str]) -> str:
    size = int(max(train[:, 1].max(), data.relation.max(initial=0)))
    kind = cardinality(train, size)[data.relation]
    rows = []
    for number, label in enumerate(("1-to-1", "1-to-N", "N-to-1", "N-to-N")):
        for way, asked in ((0, "tails"), (1, "heads")):
            inside = (kind == number) & (data.inverse == way)
            if inside.any():
                rows.append(_row(f"{label}, {asked}", found[inside], kinds))
    note = f"1-to-N: in training a head has {MANY} tails or more, on average."
    return f"{table(rows, head=('', *kinds, 'questions'))}<p>{note}</p>"


def _by_relation(data: Questions, found: np.ndarray, relations: Vocabulary, kinds: Sequence[str]) -> str:
    number, count = np.unique(data.relation, return_counts=True)
    order = np.argsort(-count, kind="stable")[:SHOWN]
    names = {r: relations.decode(int(r)) if r else "(unknown)" for r in number[order]}
    rows = [_row(name, found[data.relation == r], kinds) for r, name in names.items()]
    note = f"<p>The {SHOWN} most frequent of {len(number)}.</p>" if len(number) > SHOWN else ""
    return table(rows, head=("relation", *kinds, "questions")) + note


__all__ = ["cardinality", "sections"]
