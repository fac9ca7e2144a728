"""What of a net that embeds images goes into a bundle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pdl.export.deployment import Deployment
from pdl.report import Card
from pdl.train.images import ImageDeployer
from pdl_cv.views import EmbeddingViews, named

if TYPE_CHECKING:
    from pdl_cv.retrieval.task import Retrieval

ALL = -1.0  # the threshold before there is one: no cosine is below
TOLERANCE = 1e-4
LEARNING = ("criterion.", "projection.")  # what is there for the losses alone


class RetrievalDeployer(ImageDeployer):
    """Embeddings of images, prepared as for evaluation, and what of a gallery they are nearest to (`nearest`), with the
    threshold that validation chose. What the loss learns stays behind."""

    task: Retrieval

    def deployment(self, model: Any, dataset: Any = None) -> Deployment:
        threshold = float(model.threshold.numpy()[0])
        nearest = {"step": "nearest", **({"threshold": round(threshold, 6)} if threshold > ALL else {})}
        return self.of_images(
            model,
            dataset,
            module=EmbeddingViews(model, self.task.tta),
            outputs=("embedding",),
            post={"embedding": [nearest]},
            labels=[],
            any_size=not hasattr(model, "image_size"),
            tolerance=TOLERANCE,
            parameters=own_parameters(model),
            **named(self.task.tta),
        )

    def card(self, model: Any) -> Card:
        size = self.task.embedding
        numbers = "embeddings of all features" if size is None else f"embeddings of {size} numbers"
        views = ", ".join(self.task.tta)
        averaged = f", the mean direction of that of an image and of those of its views ({views})" if views else ""
        learned = f"; learned from {len(self.task.classes)} classes" if self.task.classes else ""
        return self.image_card(
            f"{type(model).__name__}, {numbers}",
            f"Tells which images show the same ({self.recipe.model.target}, {own_parameters(model):,} parameters)"
            f"{learned}. `pdl predict model.pdl query.jpg --gallery FOLDER` says what of a folder is nearest.",
            "Each image of a split is compared with all others of it by the cosine of their embeddings"
            f"{averaged}; no class is in training. "
            "recall@k: share of the images with one of their class among the k nearest; map@r: mean average "
            "precision among as many as their class has others; eer, tar@far and auc: of all pairs, or of "
            f"{self.task.trials:,} of them; loss: half of 1 - mean cosine of one class, and half of the mean cosine (0 "
            "where it is below) of two.",
        )


def own_parameters(model: Any) -> int:
    """Those of the net, without what its loss learns."""
    return sum(p.size for name, p in model.named_parameters() if not name.startswith(LEARNING))
