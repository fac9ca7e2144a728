"""A classical method: what the mean spectrum of a voice says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import pdl
from pdl.data import Dataset, Subset
from pdl.dtype import Array
from pdl.train import Recipe, Task
from pdl.train.classical import spread
from pdl.train.embeddings import Trials
from pdl_speech.data.recordings import rate_of
from pdl_speech.features import MFCC
from pdl_speech.speakers.metrics import speaker_metrics

CEPSTRA = 24


def baselines(task: Task, recipe: Recipe, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
    """Mean and standard deviation of 24 MFCC over a recording, standardised by those of at most 10,000 recordings of
    training, compared by their cosine."""
    train = datasets["train"]
    if not isinstance(train, Dataset):
        return {}
    known = np.stack([row for row, _ in _read(task, recipe, Subset(train, spread(len(train))))])
    mean, deviation = known.mean(axis=0), known.std(axis=0) + 1e-6
    trials = Trials(most=task.trials, listed=task.listed)  # type: ignore[attr-defined]
    metrics = speaker_metrics(trials)
    for row, batch in _read(task, recipe, datasets[split]):
        vector = (row - mean) / deviation
        vector /= max(float(np.linalg.norm(vector)), 1e-9)
        trials.update(vector[None].astype(np.float32), *batch)
    values = {name: metric.compute() for name, metric in metrics.items()}
    return {"mean and std of MFCC": {name: value for name, value in values.items() if isinstance(value, float)}}


def _read(task: Task, recipe: Recipe, dataset: Any) -> Any:
    """Of each recording float64 [48], and its label [1], index [1] and name [1]."""
    rate = rate_of(dataset)
    features = MFCC(rate=rate, n_mfcc=CEPSTRA, n_mels=40, n_fft=rate // 40, hop_length=rate // 100)
    for batch in task.loader(dataset, recipe, training=False, seed=0):
        for k, wave in enumerate(batch["audio"]):
            with pdl.no_grad():
                found: Array = features(pdl.as_tensor(wave[None])).numpy()[0].astype(np.float64)
            row = np.concatenate([found.mean(axis=0), found.std(axis=0)])
            yield row, (batch["label"][k : k + 1], batch["index"][k : k + 1], batch["name"][k : k + 1])
