"""What an encoder should beat: what tokens are frequent, whatever stands around a mask."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import copy
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl_nlp.pretraining.metrics import MaskedAccuracy, Perplexity
from pdl_nlp.pretraining.objectives import endless

if TYPE_CHECKING:
    from pdl_nlp.pretraining.task import MaskedLanguageModel

MOST = 20_000  # sequences of training in which tokens are counted
SOME = 2_000  # samples of an objective in which classes are counted


def most_frequent_class(
    task: MaskedLanguageModel, train: Any, batches: Iterable[Any]
) -> Mapping[str, Mapping[str, float]]:
    """The class of each objective that the first `SOME` samples of training have most often."""
    chosen = {}
    for name, objective in task.objectives.items():
        if objective.classes:
            samples = islice(endless(objective, copy(train), task.seed, passes=1), SOME)
            labels = np.concatenate([np.atleast_1d(sample[name]) for sample in samples])
            chosen[name] = int(np.bincount(labels[labels >= 0], minlength=objective.classes).argmax())
    metrics = {f"{name}_accuracy": MaskedAccuracy() for name in chosen}
    for batch in batches:
        if (own := task.objective_of(batch)) is not None:
            targets = batch[own]
            metrics[f"{own}_accuracy"].update(np.full_like(targets, chosen[own]), targets, targets)
    return {"most frequent class": {name: float(metric.compute()) for name, metric in metrics.items()}}


def most_frequent(
    task: MaskedLanguageModel, sequences: Iterable[Any], batches: Iterable[Any]
) -> Mapping[str, Mapping[str, float]]:
    """The most frequent token of the first `MOST` sequences of training; p is its share there, with one more of each
    token."""
    size = len(task.tokenizer.tokens)
    counts = np.ones(size)
    for number, sample in enumerate(sequences):
        if number == MOST:
            break
        counts += np.bincount(sample["tokens"], minlength=size)
    counts[~task.ordinary] = 0
    losses = -np.log(np.maximum(counts, 1e-9) / counts.sum())
    metrics = {"accuracy": MaskedAccuracy(), "perplexity": Perplexity()}
    for batch in batches:
        targets = batch["targets"]
        for metric in metrics.values():
            metric.update(np.full_like(targets, counts.argmax()), losses[targets], targets)
    return {"most frequent token": {name: float(metric.compute()) for name, metric in metrics.items()}}
