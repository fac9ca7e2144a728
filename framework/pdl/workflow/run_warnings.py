"""What a person would say of a run: a class that a split lacks, answers all of one class, a model below a baseline.

Each is one sentence. They are shown while it trains, stand in result.json as `warnings`, in the table at the end and in
the report.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pdl.errors import listed
from pdl.train.hooks import Hook
from pdl.train.loop import Evaluation, Trainer, better
from pdl.train.metrics import ConfusionMatrix
from pdl.workflow.baselines import best_baseline
from pdl.workflow.result import Result

PATIENCE = 3  # evaluations in a row with one answer only, after which training says so


def absent_classes(datasets: Mapping[str, Any], unlearned: Sequence[str] = ()) -> list[str]:
    """A sentence for each split that lacks samples of some class, where labels are known without reading samples; those
    that are `unlearned` are not missed in training."""
    found = []
    for split, dataset in datasets.items():
        labels, names = getattr(dataset, "labels", None), list(getattr(dataset, "classes", ()))
        if labels is None or not names or labels.ndim != 1 or labels.dtype.kind not in "iu":
            continue
        present = np.unique(labels)
        absent = [name for k, name in enumerate(names) if k not in present]
        absent = [name for name in absent if split != "train" or name not in unlearned]
        if absent and len(absent) < len(names):
            which = f"{len(absent)} of the {len(names)} classes" if absent[1:] else "one class"
            effect = "cannot be learned" if split == "train" else f"not measured on {split}"
            found.append(f"data.{split} has no sample of {which}, {effect}: {listed(absent)}")
    return found


def left_out(datasets: Mapping[str, Any]) -> list[str]:
    """A sentence for what was found wrong as the data sets were opened: what a recipe leaves out, and warnings. Splits
    may be of the same files, whose faults count once."""
    found = {str(fault): fault for data in datasets.values() for fault in getattr(data, "faults", ())}
    sentences = []
    for severity, what in (("error", "wrong annotations, which are left out"), ("warning", "warnings about the data")):
        some = [fault for fault in found.values() if fault.severity == severity]
        if some:
            several = f"{len(some):,} {what} (pdl check names all): " if some[1:] else ""
            sentences.append(f"{several}{some[0]}")
    return sentences


def one_answer(evaluation: Evaluation, classes: Sequence[str] = ()) -> str | None:
    """The sentence for answers that are all one class although the split has several, or None."""
    for metric in evaluation.observers.values():
        if isinstance(metric, ConfusionMatrix) and (metric.counts.sum(axis=1) > 0).sum() > 1:
            given = np.flatnonzero(metric.counts.sum(axis=0))
            if len(given) == 1:
                name = classes[given[0]] if given[0] < len(classes) else f"number {given[0]}"
                return f"every answer on {evaluation.split} is class {name}: the model does not tell the classes apart"
    return None


def below_baseline(result: Result, monitor: str, mode: str) -> str | None:
    """The sentence for a model that a baseline beats on the split of the test, by the monitored metric; or None."""
    metric = monitor.partition("/")[2]
    name = next((key for each in result.baselines.values() for key in each if key.partition("/")[2] == metric), None)
    reached = None if name is None else result.metrics.get(name)
    if name is None or reached is None:
        return None
    best = best_baseline(result, name, mode)
    if best is None or not better(best[1], reached, mode):
        return None
    return f"the model is below a baseline: {name} {reached:.4g}, {best[0]} {best[1]:.4g}"


class OneAnswer(Hook):
    """Says once, while it trains, that every answer on the validation data has been one class for some evaluations."""

    def __init__(self, classes: Sequence[str]) -> None:
        self.classes, self.count = list(classes), 0

    def on_evaluate(self, trainer: Trainer, evaluation: Evaluation) -> None:
        found = one_answer(evaluation, self.classes)
        self.count = self.count + 1 if found else 0
        if self.count == PATIENCE:
            trainer.emit("on_message", f"warning: for {PATIENCE} evaluations {found}; where that stays, look at the "
                         "labels and at optim.lr")  # fmt: skip

    def state_dict(self) -> dict[str, Any]:
        return {"count": self.count}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.count = int(state.get("count", 0))
