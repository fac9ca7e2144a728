"""What of a classifier of recordings goes into a bundle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pdl.errors import listed
from pdl.export.deployment import Deployment
from pdl.report import Card
from pdl_speech.deploy import AudioDeployer

if TYPE_CHECKING:
    from pdl_speech.classification.task import AudioClassification


class AudioClassificationDeployer(AudioDeployer):
    """Logits of waveforms [N, T]; softmax and the five best classes afterwards."""

    task: AudioClassification
    samples = 8

    def deployment(self, model: Any, dataset: Any = None) -> Deployment:
        classes = self.task.classes
        return self.of_waves(
            model,
            dataset,
            outputs=("logits",),
            post={"logits": [{"step": "softmax"}, {"step": "top", "k": min(5, len(classes))}]},
            labels=classes,
        )

    def card(self, model: Any) -> Card:
        classes = self.task.classes
        return self.audio_card(
            f"{type(model).__name__}, {len(classes)} classes",
            f"Tells what a recording is ({self.size_of(model)}, {model.rate} Hz). Classes: {listed(classes, 20)}.",
            "One pass over each split, in float32.",
        )
