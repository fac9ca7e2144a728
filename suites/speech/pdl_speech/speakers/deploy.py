"""What of a net that tells voices apart goes into a bundle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pdl.export.deployment import Deployment
from pdl.nn import Module
from pdl.report import Card
from pdl_speech.deploy import AudioDeployer, parameters

if TYPE_CHECKING:
    from pdl_speech.speakers.task import SpeakerVerification

ALL = -1.0  # the threshold before there is one: no cosine is below
TOLERANCE = 1e-4


class SpeakerDeployer(AudioDeployer):
    """Embeddings of waveforms [N, T] of any length, and who of those enrolled they are most like (`gallery`), with the
    threshold that validation chose. What the loss learns stays behind."""

    task: SpeakerVerification

    def deployment(self, model: Any, dataset: Any = None) -> Deployment:
        threshold = float(model.threshold.numpy()[0])
        gallery = {"step": "gallery", **({"threshold": threshold} if threshold > ALL else {})}
        return self.of_waves(
            model,
            dataset,
            outputs=("embedding",),
            post={"embedding": [gallery]},
            labels=[],
            tolerance=TOLERANCE,
            parameters=own_parameters(model),
        )

    def card(self, model: Any) -> Card:
        people = f"; learned from {len(self.task.speakers)} speakers" if self.task.speakers else ""
        return self.audio_card(
            f"{type(model).__name__}, embeddings of {model.embedding_size} numbers",
            f"Tells voices apart ({self.size_of(model)}, {model.rate} Hz){people}. `pdl predict model.pdl unknown.wav "
            "--enrolled FOLDER` says who of a folder it is, or nobody.",
            f"Trials are all pairs of recordings, or {self.task.trials:,} of them, by the cosine of their embeddings; "
            "no speaker is in training. eer: share of misses where it is that of false alarms; min_dcf@p: NIST's "
            "detection cost at p_target p, costs 1, over that of a constant answer; auc: area below the ROC curve; "
            "loss: half of 1 - mean cosine of one speaker, and half of the mean cosine (0 where it is below) of two.",
        )

    def size_of(self, model: Module) -> str:
        return f"{self.recipe.model.target}, {own_parameters(model):,} parameters"


def own_parameters(model: Any) -> int:
    """Those of the net, without what its loss learns."""
    return parameters(model) - (0 if model.criterion is None else parameters(model.criterion))
