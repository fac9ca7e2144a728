"""What of a net that tells slots goes into a bundle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pdl.errors import listed
from pdl.export.deployment import Deployment
from pdl.report import Card
from pdl_speech.deploy import AudioDeployer

if TYPE_CHECKING:
    from pdl_speech.slots.task import SlotFilling


class SlotDeployer(AudioDeployer):
    """Logits of waveforms [N, T] of any length, and afterwards the likeliest value of each slot (`slots`)."""

    task: SlotFilling

    def deployment(self, model: Any, dataset: Any = None) -> Deployment:
        slots = self.task.slots
        step = {"step": "slots", "names": list(slots), "values": [list(each) for each in slots.values()]}
        return self.of_waves(model, dataset, outputs=("logits",), post={"logits": [step]}, labels=[])

    def card(self, model: Any) -> Card:
        slots = "; ".join(f"{name}: {listed(values[1:], 40)}" for name, values in self.task.slots.items())
        return self.audio_card(
            f"{type(model).__name__}, {len(self.task.slots)} slots",
            f"Tells what is said of each slot of an order, without a text ({self.size_of(model)}, {model.rate} Hz). "
            f"{slots}.",
            "One pass over each split, in float32. whole: the share of orders whose slots are all right; accuracy: the "
            "share of slots, and of one slot, that are right, also where they are not said; f1: micro, over the slots "
            "that are said.",
        )
