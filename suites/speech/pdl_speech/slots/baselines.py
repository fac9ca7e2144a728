"""What tells slots without learning."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data import Dataset, Subset
from pdl.dtype import Array
from pdl.train import Recipe
from pdl.train.classical import spread
from pdl_speech.classification.baselines import averaged
from pdl_speech.data.recordings import rate_of
from pdl_speech.slots.loader import targets_of
from pdl_speech.spectra import spectrogram

if TYPE_CHECKING:
    from pdl_speech.slots.task import SlotFilling


def baselines(
    task: SlotFilling, recipe: Recipe, datasets: Mapping[str, Any], split: str
) -> dict[str, dict[str, float]]:
    """The most frequent value of each slot; and the slots of the nearest recording among at most 10,000 for training:
    spectrograms (dB), averaged to 12 times by 16 bands, of mean 0 and norm 1."""
    train = datasets["train"]
    if not isinstance(train, Dataset):
        return {}
    usual = np.array([np.bincount(column).argmax() for column in targets_of(train).T], np.int64)
    known, slots, _ = _read(task, recipe, Subset(train, spread(len(train))))
    asked, said, index = _read(task, recipe, datasets[split])
    nearest = slots[(asked @ known.T).argmax(axis=1)]
    answers = {"most frequent values": np.broadcast_to(usual, said.shape), "nearest recording": nearest}
    return {name: _measured(task, found, said, index) for name, found in answers.items()}


def _measured(task: SlotFilling, found: Array, said: Array, index: Array) -> dict[str, float]:
    made = {}
    for name, metric in task.metrics().items():
        metric.update(found, said, index)
        value = metric.compute()
        if isinstance(value, float):
            made[name] = value
    return made


def _read(task: SlotFilling, recipe: Recipe, dataset: Dataset) -> tuple[Array, Array, Array]:
    """Numbers float32 [N, D], slots int64 [N, S] and numbers int64 [N] of all samples, as they are prepared for
    evaluation."""
    found, slots, index, rate = [], [], [], rate_of(dataset)
    for batch in task.loader(dataset, recipe, training=False, seed=0):
        for sound, count in zip(batch["audio"], batch["samples"].tolist(), strict=True):
            x = averaged(spectrogram(sound[:count], rate)).ravel()
            x = x - x.mean()
            found.append(x / max(float(np.linalg.norm(x)), 1e-6))
        slots.append(np.asarray(batch["slots"]))
        index.append(np.asarray(batch["index"]))
    return np.stack(found), np.concatenate(slots), np.concatenate(index)
