"""The task of quantum kernels: classifiers that compare with samples they know."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from pdl.errors import ConfigError
from pdl.train import Parts, Recipe
from pdl_quantum.classifier.task import QuantumClassifier
from pdl_quantum.models.kernel import KernelClassifier

MOST = 512


class QuantumKernel(QuantumClassifier):
    """As `QuantumClassifier`, of a model that holds samples of the training data (`pdl_quantum.KernelClassifier`):
    `model.num_landmarks` of them, evenly spread; by default all, 512 at most."""

    def prepare(self, recipe: Recipe, datasets: Mapping[str, Any]) -> None:
        super().prepare(recipe, datasets)
        if "train" in datasets:
            self.sizes["num_landmarks"] = min(MOST, len(datasets["train"]))

    def assembled(self, parts: Parts, recipe: Recipe, *, training: bool) -> None:
        """The model holds its landmarks."""
        model = parts.model
        if isinstance(model, KernelClassifier) and "train" in parts.datasets:
            model.hold(self._landmarks(recipe, parts.datasets["train"], len(model.landmarks)))

    def _landmarks(self, recipe: Recipe, dataset: Any, count: int) -> np.ndarray:
        if count > len(dataset):
            raise ConfigError(f"model.num_landmarks={count}: data.train has {len(dataset)} samples")
        chosen = set((np.arange(count) * len(dataset) // count).tolist())
        loader: Any = self.loader(dataset, recipe, training=False, seed=0)
        rows = [self.inputs(batch).numpy().reshape(len(batch["label"]), -1) for batch in loader]
        return np.concatenate(rows)[sorted(chosen)]
