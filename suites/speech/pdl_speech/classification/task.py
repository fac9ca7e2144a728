"""The task of classifying recordings: what the trainer calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import pdl
from pdl.data import Fault
from pdl.data.folders import split_folder
from pdl.errors import ConfigError, listed
from pdl.hints import Range
from pdl.nn import Module
from pdl.train import Deployed, Loss, Metric, Recipe, Task
from pdl.train.class_loss import ClassLoss, ClassWeights, Gamma
from pdl.train.classes import classes_of
from pdl.train.metrics import Mistakes, class_metrics
from pdl_speech.classification.baselines import baselines
from pdl_speech.classification.check import check
from pdl_speech.classification.deploy import AudioClassificationDeployer
from pdl_speech.classification.preview import AudioClassificationPreviewer
from pdl_speech.classification.report import AudioClassificationReporter
from pdl_speech.data.recordings import Rate
from pdl_speech.fitting import answer, check_rates, first_waves


class AudioClassification(Task):
    """One class for each recording, by cross-entropy: keywords, digits, commands, sounds.

    classes          their names in the order of the labels; by default the data set's
    rate             of the waveforms in Hz; by default the data set's
    label_smoothing  share of the target that is spread evenly over all classes (Szegedy et al., arXiv 1512.00567); in
                     training only
    class_weights    weights of the classes in the loss, by name (others 1), or "balanced": all classes count alike; in
                     training only, as the next one
    focal_gamma      of the focal loss (Lin et al., arXiv 1708.02002); 0: plain cross-entropy
    mistakes         how many of the worst mistakes the report shows

    Models take waveforms [N, T] (`pdl_speech.models.AudioNet`). Samples are {"audio": float32 [T], "label": int}.
    """

    monitor = "val/accuracy"
    monitor_mode = "max"

    def __init__(
        self,
        *,
        classes: Sequence[str] | None = None,
        rate: Rate | None = None,
        label_smoothing: Annotated[float, Range(0, below=1)] = 0.0,
        class_weights: ClassWeights | None = None,
        focal_gamma: Gamma = 0.0,
        mistakes: Annotated[int, Range(0)] = 24,
    ) -> None:
        self.classes, self.rate = list(classes or ()), rate
        self.label_smoothing, self.mistakes = label_smoothing, mistakes
        self.class_loss = ClassLoss(class_weights, focal_gamma)

    # -- training ------------------------------------------------------------------------------------------------------
    def step(self, model: Module, batch: Any) -> Loss:
        labels, logits = batch["label"], model(pdl.as_tensor(batch["audio"]))
        loss = self.class_loss(logits, labels, smoothing=self.label_smoothing)
        return Loss(loss, len(labels), (logits.detach(), labels))

    def evaluate(self, model: Module, batch: Any) -> Loss:
        labels, logits = batch["label"], model(pdl.as_tensor(batch["audio"]))
        return Loss(pdl.cross_entropy(logits, pdl.as_tensor(labels)), len(labels), (logits, labels))

    def metrics(self) -> dict[str, Metric]:
        return {**class_metrics(len(self.classes)), "mistakes": Mistakes(self.mistakes)}

    def update_metrics(self, metrics: dict[str, Metric], loss: Loss, batch: Any) -> None:
        for metric in metrics.values():
            metric.update(*loss.outputs, *((batch["index"],) if isinstance(metric, Mistakes) else ()))

    # -- building ------------------------------------------------------------------------------------------------------
    def prepare(self, recipe: Recipe, datasets: Mapping[str, Any]) -> None:
        """Agree on the class names, and on a rate."""
        self.classes = classes_of(self.classes, datasets)
        self.rate = self.rate or next((each.rate for each in datasets.values() if hasattr(each, "rate")), None)
        self.class_loss.fit(self.classes, datasets)

    def facts(self, recipe: Recipe) -> Mapping[str, Any]:
        return {"num_classes": len(self.classes)}

    def check_model(self, model: Module, datasets: Mapping[str, Any], recipe: Recipe) -> None:
        """Run one recording of each split through its transforms and the model."""
        if isinstance(model, Deployed):
            return
        check_rates(model, datasets)
        for waves, source in first_waves(self, datasets, recipe):
            shape = answer(model, waves, source, recipe).shape
            if shape != (1, len(self.classes)):
                raise ConfigError(
                    f"model: {recipe.model.target} gives outputs of shape {shape}, but the data has "
                    f"{len(self.classes)} classes ({listed(self.classes)}); set model.num_classes={len(self.classes)}, "
                    "or leave it out"
                )

    def learned_config(self) -> dict[str, Any]:
        return {"classes": self.classes, "rate": self.rate}

    def baselines(self, recipe: Recipe, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
        """The most frequent class, logistic regression and the nearest neighbour."""
        return baselines(self, recipe, datasets, split)

    def data_at(self, path: Path, split: str) -> dict[str, Any]:
        """A folder of class folders."""
        own = None if split_folder(path, split) is None else split
        return {"_target_": "pdl_speech.data.AudioFolder", "root": str(path), "split": own, "ratios": None,
                "rate": self.rate, "classes": self.classes, "allow_empty": True}  # fmt: skip

    def check(self, recipe: Recipe, progress: Any = None) -> list[Fault]:
        return check(recipe, progress)

    # -- what a task hands over ----------------------------------------------------------------------------------------
    def deployer(self, recipe: Recipe) -> AudioClassificationDeployer:
        return AudioClassificationDeployer(self, recipe)

    def previewer(self, recipe: Recipe) -> AudioClassificationPreviewer:
        return AudioClassificationPreviewer(self, recipe)

    def reporter(self) -> AudioClassificationReporter:
        return AudioClassificationReporter(self)
