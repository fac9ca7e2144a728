"""What the report says of a model of sessions: the metrics by cut-off, where in a session it hits, and examples."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from pdl.ranking import Lists, top_k
from pdl.report import Section, line_chart, table
from pdl.train.loop import Evaluation
from pdl.train.metrics import Metric
from pdl.vocabulary import Vocabulary
from pdl_rec.evaluation import Ranking
from pdl_rec.sequential.loader import Prefixes

EXAMPLES, SHOWN, NEWEST = 12, 5, 8  # sessions that are shown, recommendations for each, and items of it
GROUPS = (
    1,
    2,
    3,
    4,
    5,
    7,
    10,
    15,
    20,
    30,
    50,
    75,
    100,
    150,
    200,
    300,
)  # of targets, by items before them: from here on


@dataclass(frozen=True)
class Found:
    """What became of each sample, in order of their numbers: the rank of its target, float64 [N] (infinity for a miss);
    and for a few that a hash of their numbers picks, the best items: {index: int64 [SHOWN]}."""

    ranks: np.ndarray
    best: dict[int, np.ndarray]


class Places(Metric):
    """Keeps `Found` of an evaluation, with the protocol of `ranking`."""

    def __init__(self, ranking: Ranking) -> None:
        self.ranking, self.ranks, self.best = ranking, list[tuple[np.ndarray, np.ndarray]](), dict[int, np.ndarray]()

    def update(self, scores: np.ndarray, targets: np.ndarray, items: np.ndarray, index: np.ndarray) -> None:
        """scores [N, n + 1], targets and index int64 [N], items int64 [N, T]."""
        seen = None if self.ranking.self_recommendation else Lists.of_rows(items)
        self.ranks.append((index, self.ranking.ranks(scores, targets, seen)))
        rows = {int(i): row for row, i in enumerate(index)}
        kept = sorted([*self.best, *rows], key=_picked)[:EXAMPLES]
        new = [rows[i] for i in kept if i in rows]
        some = None if seen is None else seen.take(np.array(new, np.int64))
        _, tops = top_k(scores[new], SHOWN, excluded=some)
        self.best = {i: self.best[i] for i in kept if i in self.best} | dict(
            zip(index[new].tolist(), tops, strict=True)
        )

    def compute(self) -> Any:
        index, ranks = (np.concatenate(each) for each in zip(*self.ranks, strict=True))
        return Found(ranks[np.argsort(index)], self.best)


def sections(
    evaluation: Evaluation, dataset: Any, items: Vocabulary, *, cutoffs: Sequence[int], protocol: str
) -> list[Section]:
    """The sections on one evaluation; `dataset` tells the sessions."""
    made = [Section(f"Ranking ({evaluation.split})", f"{cut_table(evaluation, cutoffs)}<p>{escape(protocol)}</p>")]
    if not isinstance(dataset, Prefixes):
        return made
    found: Found = evaluation.details["places"]
    k = max(cutoffs)
    if len(found.ranks) == len(dataset):  # not after a few batches only
        made.append(Section(f"recall@{k} by items known before", by_position(dataset, found.ranks, k)))
    made.append(Section("Sessions", examples(dataset, found.best, items)))
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
        told = [f"[{_name(items, int(i))}]" if i == target else _name(items, int(i)) for i in best[index]]
        session = ", ".join(_name(items, int(i)) for i in known[-NEWEST:])
        rows.append(("... " * (len(known) > NEWEST) + session, _name(items, target), ", ".join(told)))
    return table(rows, head=("session, newest last", "came next", f"recommended, best first ({SHOWN})"))


def _picked(index: int) -> int:
    return zlib.crc32(index.to_bytes(8, "little"))


def _name(items: Vocabulary, number: int) -> str:
    return items.decode(number) if number else "(unknown)"


__all__ = ["Found", "Places", "sections"]
