"""What the report says of a model of sessions: the metrics by cut-off, where in a session it hits, and examples."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.report import Section, line_chart, table
from pdl.train import Evaluation, Reporter
from pdl.vocabulary import Vocabulary
from pdl_rec.next_item.loader import Prefixes
from pdl_rec.next_item.metrics import SHOWN, Found

if TYPE_CHECKING:
    from pdl_rec.next_item.task import NextItem

NEWEST = 8  # items of a session that are shown
GROUPS = (1, 2, 3, 4, 5, 7, 10, 15, 20, 30, 50, 75, 100, 150, 200, 300)
"""Of targets by the number of items before them: where each group begins."""


class NextItemReporter(Reporter):
    """The metrics by cut-off, where in a session the model hits, and examples."""

    task: NextItem

    def sections(self, evaluation: Evaluation, dataset: Any) -> list[Section]:
        cutoffs, protocol = self.task.cutoffs, escape(self.task.protocol())
        made = [Section(f"Ranking ({evaluation.split})", f"{cut_table(evaluation, cutoffs)}<p>{protocol}</p>")]
        if not isinstance(dataset, Prefixes):
            return made
        found: Found = evaluation.details["places"]
        k = max(cutoffs)
        if len(found.ranks) == len(dataset):  # not after a few batches only
            made.append(Section(f"recall@{k} by items known before", by_position(dataset, found.ranks, k)))
        made.append(Section("Sessions", examples(dataset, found.best, self.task.vocabularies["items"])))
        return made


def cut_table(evaluation: Evaluation, cutoffs: Sequence[int]) -> str:
    """A row for each measure, a column for each cut-off."""
    kinds = sorted({name.partition("@")[0] for name in evaluation.metrics if "@" in name})
    rows = [
        (kind.rpartition("/")[2], *(float(evaluation.metrics.get(f"{kind}@{k}", np.nan)) for k in cutoffs))
        for kind in kinds
    ]
    return table(rows, head=("", *(f"@{k}" for k in cutoffs)))


def by_position(data: Prefixes, ranks: np.ndarray, k: int) -> str:
    """recall@k for targets with 1, 2, ... items before them, as a curve and in numbers; many items are grouped."""
    before = data.events - data.sessions.offsets[data.rows]
    group = np.searchsorted(GROUPS, before, side="right")
    rows, points = [], []
    for number in np.unique(group):
        inside = group == number
        recall, known = float((ranks[inside] <= k).mean()), before[inside]
        low, high = int(known.min()), int(known.max())
        rows.append((str(low) if low == high else f"{low} to {high}", recall, len(known)))
        points.append((float(known.mean()), recall))
    curve = line_chart({f"recall@{k}": points}, x_label="items known before")
    numbers = table(rows, head=("items before", f"recall@{k}", "targets"))
    return f'<div class="charts">{curve}{numbers}</div>'


def examples(data: Prefixes, best: dict[int, np.ndarray], items: Vocabulary) -> str:
    """The end of some sessions, what came next, and what was recommended; a hit is marked."""
    rows = []
    for index in sorted(best):
        sample = data[index]
        known = sample["items"][sample["items"] > 0]
        target = int(sample["target"])
        shown = [f"[{_name(items, int(i))}]" if i == target else _name(items, int(i)) for i in best[index]]
        session = ", ".join(_name(items, int(i)) for i in known[-NEWEST:])
        rows.append(("... " * (len(known) > NEWEST) + session, _name(items, target), ", ".join(shown)))
    return table(rows, head=("session, newest last", "came next", f"recommended, best first ({SHOWN})"))


def _name(items: Vocabulary, number: int) -> str:
    return items.decode(number) if number else "(unknown)"
