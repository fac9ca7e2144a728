"""From sessions as people write them to recommended items: the bundle's pipeline around the model itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any

import pdl
from pdl.errors import UsageError
from pdl.nn import Module
from pdl.runtime.names import csv_line
from pdl.runtime.pipeline import Pipeline
from pdl.tensor import no_grad
from pdl.train import Recipe
from pdl_rec.sequential.deploy import pipeline

if TYPE_CHECKING:
    from pdl_rec.sequential.task import NextItem


def predict(
    task: NextItem, model: Module, inputs: Sequence[Any], recipe: Recipe, *, batch_size: int, topk: int | None
) -> Iterator[dict[str, Any]]:
    """One dict for each session, in order."""
    if batch_size < 1 or (topk is not None and topk < 1):
        raise UsageError(f"topk={topk} and batch_size={batch_size} must be at least 1")
    steps = pipeline(task, recipe)
    if topk is not None:
        steps.set(k=topk)
    model.eval()
    sessions = iter(inputs)
    while group := list(islice(sessions, batch_size)):
        for session, answer in zip(group, _answers(model, steps, group), strict=True):
            yield {"input": session if isinstance(session, str) else csv_line(list(map(str, session))), **answer}


def _answers(model: Module, steps: Pipeline, group: Sequence[Any]) -> list[dict[str, Any]]:
    samples = [steps.take(session) for session in group]
    found: list[dict[str, Any]] = [{}] * len(group)
    for members, inputs in steps.batches(samples):
        with no_grad():
            scores = model(pdl.as_tensor(inputs["items"])).numpy()
        for row, number in enumerate(members):
            found[number] = steps.finish({"scores": scores[row]}, samples[number])
    return found


__all__ = ["predict"]
