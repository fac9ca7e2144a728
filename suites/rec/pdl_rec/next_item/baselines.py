"""What popularity, rules and neighbours reach beside a model of sessions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from pdl_rec.baselines import BASELINES
from pdl_rec.baselines import baselines as measure
from pdl_rec.data.sessions import sessions_of

if TYPE_CHECKING:
    from pdl_rec.next_item.task import NextItem


def baselines(task: NextItem, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
    """Those that the task compares with (`pdl_rec.baselines`), by the protocol of the model."""
    train, test = sessions_of(datasets["train"]), sessions_of(datasets[split])
    names = tuple(BASELINES) if task.compare is None else task.compare
    count = len(task.vocabularies["items"])
    return measure(train, test, count, names=names, ranking=task.ranking, max_length=task.max_length)
