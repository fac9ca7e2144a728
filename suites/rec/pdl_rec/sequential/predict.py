"""From sessions as people write them to recommended items."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.errors import UsageError
from pdl.nn import Module
from pdl.tensor import no_grad

if TYPE_CHECKING:
    from pdl_rec.sequential.task import NextItem


def predict(
    task: NextItem, model: Module, inputs: Sequence[Any], *, batch_size: int, topk: int
) -> Iterator[dict[str, Any]]:
    """One dict for each session, in order."""
    if topk < 1 or batch_size < 1:
        raise UsageError(f"topk={topk} and batch_size={batch_size} must be at least 1")
    sessions = iter(inputs)
    model.eval()
    while group := list(islice(sessions, batch_size)):
        yield from _answers(task, model, group, topk)


def _answers(task: NextItem, model: Any, group: Sequence[Any], topk: int) -> Iterator[dict[str, Any]]:
    items = task.vocabularies["items"]
    named = [names_of(session) for session in group]
    numbers = [items.numbers(names) for names in named]
    known = [found[found > 0][-task.max_length :] for found in numbers]
    batch = np.zeros((len(group), max(1, *(len(k) for k in known)) if known else 1), np.int64)
    for row, found in enumerate(known):
        batch[row, : len(found)] = found
    with no_grad():
        scores = task.scores(model, batch)
    for row, session in enumerate(group):
        best = _best(scores[row], topk if len(known[row]) else 0)
        top = [{"item": items.name(int(i)), "score": float(scores[row, i])} for i in best]
        unknown = [name for name, number in zip(named[row], numbers[row], strict=True) if number == 0]
        yield {"input": session, **(top[0] if top else {}), "top": top, **({"unknown": unknown} if unknown else {})}


def _best(scores: np.ndarray, k: int) -> np.ndarray:
    """The k highest that are finite, the highest first; of equal ones the lower number first."""
    order = np.argsort(-scores, kind="stable")[:k]
    return order[np.isfinite(scores[order])]


def names_of(session: Any) -> list[str]:
    """Names of items out of "a,b,c" or a list."""
    if isinstance(session, str):
        return [name for part in session.split(",") if (name := part.strip())]
    if isinstance(session, Sequence):
        return [str(name) for name in session]
    raise UsageError(f"a session is a text such as 'a,b,c' or a list of names of items, not {type(session).__name__}")


__all__ = ["names_of", "predict"]
