"""What hears without learning."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from pdl.data import Dataset, Subset
from pdl.dtype import Array
from pdl.train import Recipe
from pdl.train.classical import spread
from pdl_speech.classification.baselines import averaged
from pdl_speech.data.recordings import rate_of
from pdl_speech.spectra import spectrogram

if TYPE_CHECKING:
    from pdl_speech.recognition.task import SpeechRecognition

TIMES = 12  # that features are averaged to


def baselines(
    task: SpeechRecognition, recipe: Recipe, datasets: Mapping[str, Any], split: str
) -> dict[str, dict[str, float]]:
    """The text of the nearest sound among at most 10,000 for training: spectrograms (dB), averaged to 12 times by 16
    bands, or features to 12 times, of mean 0 and norm 1."""
    train, rate = datasets["train"], rate_of(datasets["train"])
    known, texts, _ = _read(task, recipe, Subset(train, spread(len(train))), rate)
    asked, expected, index = _read(task, recipe, datasets[split], rate)
    found = [texts[i] for i in (asked @ known.T).argmax(axis=1).tolist()]
    measured = {name: metric for name, metric in task.metrics().items() if name != "heard"}
    for metric in measured.values():
        metric.update(found, expected, index)
    return {"nearest sound": {name: float(metric.compute()) for name, metric in measured.items()}}


def _read(task: SpeechRecognition, recipe: Recipe, dataset: Dataset, rate: int) -> tuple[Array, list[str], Array]:
    """Numbers float32 [N, D], texts and numbers of all samples, as they are prepared for evaluation."""
    found, texts, index = [], [], []
    for batch in task.loader(dataset, recipe, training=False, seed=0):
        for sound, count in zip(batch["audio"], batch["samples"].tolist(), strict=True):
            x = summary(sound[:count], rate).ravel()
            x = x - x.mean()
            found.append(x / max(float(np.linalg.norm(x)), 1e-6))
        texts += [task.clean(text) for text in batch["text"]]
        index.append(np.asarray(batch["index"]))
    return np.stack(found), texts, np.concatenate(index)


def summary(sound: Array, rate: int) -> Array:
    """A waveform [T], or features [frames, channels], as [12, D]."""
    if sound.ndim == 1:
        return averaged(spectrogram(sound, rate))
    edges = np.linspace(0, len(sound), TIMES + 1).astype(int)
    means = [sound[a : max(b, a + 1)].mean(axis=0) for a, b in pairwise(edges)]
    made: Array = np.stack(means) - sound.mean(axis=0)
    return made
