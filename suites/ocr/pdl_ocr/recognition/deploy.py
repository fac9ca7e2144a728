"""What of a recogniser goes into a bundle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pdl.errors import listed
from pdl.export.deployment import Deployment
from pdl.report import Card
from pdl.runtime import visual_order
from pdl.train.images import ImageDeployer

if TYPE_CHECKING:
    from pdl_ocr.recognition.task import TextRecognition


class RecognitionDeployer(ImageDeployer):
    """Logits of the characters at each step of lines [N, H, W, C] of any width, or of the net's; softmax and greedy
    decoding follow."""

    task: TextRecognition

    def deployment(self, model: Any, dataset: Any = None) -> Deployment:
        visual = {"visual": True} if visual_order.differs(self.task.characters) else {}
        model = model.deployed()
        return self.of_images(
            model,
            dataset,
            module=model,
            outputs=("logits",),
            post={"logits": [{"step": "softmax"}, {"step": model.decoding.step, **visual}]},
            labels=list(self.task.characters),
            any_size="width" if model.width is None else False,
            tall=self.task.tall,
            tolerance=model.tolerance,
        )

    def card(self, model: Any) -> Card:
        model, characters = model.deployed(), self.task.characters
        sides = ""
        if self.task.tall is not None:
            sides = f" Of lines {self.task.tall:g} times as high as wide or more the most certain of three readings "
            sides += "counts, as they are and turned by 90 degrees to either side."
        return self.image_card(
            f"{type(model).__name__}, {len(characters)} characters",
            f"Reads a line of text ({self.size_of(model)}). Characters: {listed(list(characters), 100)}.",
            "One pass over each split, in float32, decoded greedily. Accuracy: the share of texts read exactly; "
            "alphanumeric: letters and digits alone, case ignored; similarity: 1 - edit distance / length of the "
            "longer text; cer: edits by characters." + sides,
            draws=False,
        )
