"""What speaks without learning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data import Subset
from pdl.dtype import Array
from pdl.train import Recipe
from pdl.train.classical import spread

if TYPE_CHECKING:
    from pdl_speech.synthesis.task import SpeechSynthesis

MOST = 1000  # recordings that are learned from


def baselines(
    task: SpeechSynthesis, recipe: Recipe, datasets: Mapping[str, Any], split: str
) -> dict[str, dict[str, float]]:
    """mean characters: texts whose characters have the mean mel energies, and the mean length, that they have in
    training where each recording is cut into equal pieces."""
    train = datasets["train"]
    known = Subset(train, spread(len(train))[:: max(1, len(train) // MOST)])
    means, lengths = _means(task, recipe, known)
    metrics = {name: metric for name, metric in task.metrics().items() if name not in ("said", "copy_mcd")}
    for batch in task.loader(datasets[split], recipe, training=False, seed=0):
        for _, numbers, heard, index in task.recordings(batch):
            made = np.concatenate([np.repeat(means[c][None], lengths[c], axis=0) for c in numbers])
            row = task.compared(made, len(made), heard, task.vocoder(made), index)
            for metric in metrics.values():
                metric.update([row], [])
    return {"mean characters": {name: float(metric.compute()) for name, metric in metrics.items()}}


def _means(task: SpeechSynthesis, recipe: Recipe, known: Subset) -> tuple[Array, Array]:
    """Mean energies [characters, bands] and frames int64 [characters] of each character; of unknown ones those of
    all."""
    size, bands = len(task.characters) + 1, task.front.channels
    sums, frames, counts = np.zeros((size, bands)), np.zeros(size), np.zeros(size)
    for batch in task.loader(known, recipe, training=False, seed=0):
        for _, numbers, heard, _ in task.recordings(batch):
            places = np.minimum(np.arange(len(heard)) * len(numbers) // len(heard), len(numbers) - 1)
            np.add.at(sums, numbers[places], heard)
            np.add.at(frames, numbers[places], 1)
            np.add.at(counts, numbers, 1)
    every = sums.sum(axis=0) / frames.sum()
    means = np.where(frames[:, None] > 0, sums / np.maximum(frames, 1)[:, None], every)
    lengths = np.where(counts > 0, frames / np.maximum(counts, 1), frames.sum() / counts.sum())
    return means.astype(np.float32), np.maximum(np.rint(lengths), 1).astype(np.int64)
