"""The task of quantum kernels: classifiers that compare with samples they know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from pdl.errors import ConfigError
from pdl.train import Parts
from pdl.train.task import SPLITS
from pdl_quantum.classifier.task import QuantumClassifier
from pdl_quantum.models.kernel import KernelClassifier

MOST = 512


class QuantumKernel(QuantumClassifier):
    """As `QuantumClassifier`, of a model that holds samples of the training data (`pdl_quantum.KernelClassifier`):
    `model.num_landmarks` of them, evenly spread; by default all, 512 at most."""

    def facts(self, cfg: Any, datasets: Mapping[str, Any]) -> dict[str, Any]:
        known = {"num_landmarks": min(MOST, len(datasets["train"]))} if "train" in datasets else {}
        return {**super().facts(cfg, datasets), **known}

    def build(
        self, cfg: Any, *, seed: int = 0, splits: Sequence[str] = SPLITS, training: bool = True, overfit: int = 0
    ) -> Parts:
        parts = super().build(cfg, seed=seed, splits=splits, training=training, overfit=overfit)
        model = parts.model
        if isinstance(model, KernelClassifier) and "train" in parts.datasets:
            model.hold(self._landmarks(cfg, parts.datasets["train"], len(model.landmarks)))
        return parts

    def _landmarks(self, cfg: Any, dataset: Any, count: int) -> np.ndarray:
        if count > len(dataset):
            raise ConfigError(f"model.num_landmarks={count}: data.train has {len(dataset)} samples")
        chosen = set((np.arange(count) * len(dataset) // count).tolist())
        loader: Any = self.loader(cfg, dataset, training=False, seed=0)
        rows = [self.inputs(batch).numpy().reshape(len(batch["label"]), -1) for batch in loader]
        return np.concatenate(rows)[sorted(chosen)]


__all__ = ["QuantumKernel"]
