"""What an encoder should beat: what tokens are frequent, whatever stands around a mask."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl_nlp.pretraining.metrics import MaskedAccuracy, Perplexity

if TYPE_CHECKING:
    from pdl_nlp.pretraining.task import MaskedLanguageModel

MOST = 20_000  # sequences of training in which tokens are counted


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
