"""What the report says of a model of sessions: the metrics by cut-off, where in a session it hits, and examples."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from pdl.report import Section, line_chart, table
from pdl.train.loop import Evaluation
from pdl.train.metrics import Metric
from pdl.vocabulary import Vocabulary
from pdl_rec.sequential.loader import Prefixes

EXAMPLES, SHOWN, NEWEST = 12, 5, 8  # sessions that are shown, recommendations for each, and items of it
POSITIONS = 20  # targets further back in a session are one group


class Ranks(Metric):
    """The rank of every target, by the number of its sample: (index int64 [N], rank int64 [N]), in order of index.

    Ties count against the target; a target that is no item of the vocabulary has the last rank of all.
    """

    def __init__(self) -> None:
        self.found: list[tuple[np.ndarray, np.ndarray]] = []

    def update(self, scores: np.ndarray, targets: np.ndarray, index: np.ndarray) -> None:
        """scores [N, n + 1], targets and index int64 [N]."""
        own = np.take_along_axis(scores, targets[:, None], axis=1)
        ranks = scores.shape[1] - (scores[:, 1:] < own).sum(axis=1) - 1
        self.found.append((index, np.where(targets == 0, scores.shape[1] - 1, ranks)))

    def compute(self) -> Any:
        index, ranks = (np.concatenate(each) for each in zip(*self.found, strict=True))
        order = np.argsort(index)
        return index[order], ranks[order]


class Examples(Metric):
    """The best items for `EXAMPLES` samples that a hash of their numbers picks: {index: items int64 [SHOWN]}."""

    def __init__(self) -> None:
        self.found: dict[int, np.ndarray] = {}

    def update(self, scores: np.ndarray, targets: np.ndarray, index: np.ndarray) -> None:
        """scores [N, n + 1], targets and index int64 [N]."""
        rows = {int(i): row for row, i in enumerate(index)}
        kept = sorted([*self.found, *rows], key=_picked)[:EXAMPLES]
        best = {i: np.argsort(-scores[rows[i]], kind="stable")[:SHOWN] for i in kept if i in rows}
        self.found = {i: self.found[i] for i in kept if i in self.found} | best

    def compute(self) -> Any:
        return self.found


def sections(
    evaluation: Evaluation, dataset: Any, items: Vocabulary, *, cutoffs: Sequence[int], protocol: str
) -> list[Section]:
    """The sections on one evaluation; `dataset` tells the sessions."""
    made = [Section(f"Ranking ({evaluation.split})", f"{cut_table(evaluation, cutoffs)}<p>{escape(protocol)}</p>")]
    if not isinstance(dataset, Prefixes):
        return made
    index, ranks = evaluation.details["ranks"]
    k = max(cutoffs)
    made.append(Section(f"recall@{k} by items known before", by_position(dataset, index, ranks, k)))
    made.append(Section("Sessions", examples(dataset, evaluation.details["examples"], items)))
    return made


def cut_table(evaluation: Evaluation, cutoffs: Sequence[int]) -> str:
    """A row for each measure, a column for each cut-off."""
    kinds = sorted({name.partition("@")[0] for name in evaluation.metrics if "@" in name})
    rows = [
        (kind.rpartition("/")[2], *(float(evaluation.metrics.get(f"{kind}@{k}", np.nan)) for k in cutoffs))
        for kind in kinds
    ]
    return table(rows, head=("", *(f"@{k}" for k in cutoffs)))


def by_position(data: Prefixes, index: np.ndarray, ranks: np.ndarray, k: int) -> str:
    """recall@k for targets with 1, 2, ... items before them, as a curve and in numbers."""
    before = np.minimum(data.events[index] - data.sessions.offsets[data.rows[index]], POSITIONS)
    present = np.unique(before)
    rows = [(int(n), float((ranks[before == n] <= k).mean()), int((before == n).sum())) for n in present]
    curve = line_chart({f"recall@{k}": [(n, recall) for n, recall, _ in rows]}, x_label="items known before")
    shown = [(f"{n} or more" if n == POSITIONS else str(n), recall, count) for n, recall, count in rows]
    numbers = table(shown, head=("items before", f"recall@{k}", "targets"))
    return f'<div class="charts">{curve}{numbers}</div>'


def examples(data: Prefixes, best: dict[int, np.ndarray], items: Vocabulary) -> str:
    """The end of some sessions, what came next, and what was recommended; a hit is marked."""
    rows = []
    for index in sorted(best):
        sample = data[index]
        known = sample["items"][sample["items"] > 0]
        target = int(sample["target"])
        told = [f"[{_name(items, int(i))}]" if i == target else _name(items, int(i)) for i in best[index]]
        session = ", ".join(_name(items, int(i)) for i in known[-NEWEST:])
        rows.append(("... " * (len(known) > NEWEST) + session, _name(items, target), ", ".join(told)))
    return table(rows, head=("session, newest last", "came next", f"recommended, best first ({SHOWN})"))


def _picked(index: int) -> int:
    return zlib.crc32(index.to_bytes(8, "little"))


def _name(items: Vocabulary, number: int) -> str:
    return items.name(number) if number else "(unknown)"


__all__ = ["Examples", "Ranks", "sections"]
