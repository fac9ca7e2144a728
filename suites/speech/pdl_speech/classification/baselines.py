"""Classical methods on spectrograms."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np

from pdl.data import Dataset, Subset
from pdl.train import Recipe, Task
from pdl.train.classical import classifiers, scored, spread
from pdl.train.metrics import class_metrics
from pdl_speech.data.recordings import rate_of
from pdl_speech.spectra import spectrogram

TIMES, BANDS = 12, 16  # that a spectrogram is averaged to
Array = np.ndarray


def baselines(task: Task, recipe: Recipe, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
    """The most frequent class, logistic regression and the nearest neighbour on spectrograms (dB) of the recordings as
    they are prepared for evaluation, averaged to 12 times by 16 bands, and at most 10,000 of the training data."""
    train = datasets["train"]
    if not isinstance(train, Dataset):
        return {}
    x, y = _read(task, recipe, Subset(train, spread(len(train))))
    x_test, labels = _read(task, recipe, datasets[split])
    made = classifiers(x, y, x_test, len(task.classes), seen=len(train))  # type: ignore[attr-defined]
    return {name: scored(class_metrics(scores.shape[1]), scores, labels) for name, scores in made.items()}


def _read(task: Task, recipe: Recipe, dataset: Any) -> tuple[Array, Array]:
    """Numbers float32 [N, D] and labels of all samples."""
    rate = rate_of(dataset)
    found, labels = [], []
    for batch in task.loader(dataset, recipe, training=False, seed=0):
        found += [averaged(spectrogram(wave, rate)).ravel() for wave in batch["audio"]]
        labels.append(np.asarray(batch["label"]))
    return np.stack(found), np.concatenate(labels)


def averaged(spectrum: Array) -> Array:
    """[frames, bins] -> [12, 16]: means of equal parts, of frequencies on a scale that widens as hearing does."""
    times = np.linspace(0, len(spectrum), TIMES + 1).astype(int)
    mel = np.log1p(np.arange(spectrum.shape[1]) / spectrum.shape[1] * 10)
    bands = np.searchsorted(mel, np.linspace(0, mel[-1], BANDS + 1))
    rows = [spectrum[a : max(b, a + 1)].mean(axis=0) for a, b in pairwise(times)]
    return np.array([[row[a : max(b, a + 1)].mean() for a, b in pairwise(bands)] for row in rows], np.float32)
