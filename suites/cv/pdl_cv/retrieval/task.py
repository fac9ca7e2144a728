"""The retrieval task: what the trainer calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

import pdl
from pdl.data import DataLoader, Fault
from pdl.errors import ConfigError, DataError
from pdl.hints import Range
from pdl.nn import Identity, Linear, Module
from pdl.train import Deployed, Evaluation, Loss, Metric, Recipe, SmokeTest, Task
from pdl.train.embeddings import NEAREST, Scored, Trials
from pdl.train.images import answer, first_images
from pdl.train.open_set import OpenSet, learned_classes, numbered
from pdl_cv.models.blocks import Auxiliary
from pdl_cv.models.tsn import head_parts
from pdl_cv.retrieval.baselines import baselines
from pdl_cv.retrieval.check import check_recipe, known
from pdl_cv.retrieval.deploy import ALL, RetrievalDeployer
from pdl_cv.retrieval.loader import retrieval_loader
from pdl_cv.retrieval.losses import Losses, LossName, Options
from pdl_cv.retrieval.metrics import retrieval_metrics
from pdl_cv.retrieval.preview import RetrievalPreviewer
from pdl_cv.retrieval.report import RetrievalReporter
from pdl_cv.views import EmbeddingViews, View, check_views, with_views

UNUSED = 2  # outputs of a last layer that is left out
EACH = 4  # images of a class in a batch, where a loss compares them


class Retrieval(Task):
    """Which images show the same, by the cosine of their embeddings. Models are the classification nets of the suite,
    whose last layer gives `embedding` numbers in place of logits. Classes of val and test are not in train.

    embedding         numbers of an embedding; null: what the last layer of the net is given, without this layer
    projection        in training the losses see so many numbers, which a linear layer makes of the embedding; what is
                      below it serves classes that training has not seen better (Chen et al., arXiv 2002.05709, section
                      4.2), above all where training has few
    loss              what is learned by, or several with what each takes, and its weight: {arcface: {margin: 0.3},
                      triplet: {mining: hard, weight: 0.5}}. By classes: softmax (`pdl.nn.SoftmaxLoss`), arcface
                      (`ArcFaceLoss`), cosface (`CosFaceLoss`); by the images of a batch: triplet (`TripletLoss`),
                      quadruplet (`QuadrupletLoss`), npair (`NPairLoss`), supcon (`SupConLoss`). What they learn is no
                      part of a bundle
    images_per_class  of each class in a training batch, which has data.batch_size / images_per_class classes; by
                      default 4 where a loss compares the images of a batch, and otherwise images are drawn at random
    classes           of training, in the order of their numbers; by default the data's
    mode              "rgb" or "gray": how `pdl predict` reads images; by default as many channels as the data set's
    tta               test-time augmentation: views of each image (horizontal_flip, vertical_flip, rotate90, rotate180,
                      rotate270) whose embeddings are averaged with its own, in evaluation, answers and the bundle, not
                      in training steps
    recall            the k of recall@k
    far               shares of false alarms at which the share of accepted pairs is measured
    trials            pairs of images at most that an evaluation compares: of more so many are drawn, always the same
    mistakes          how many queries, and how many of the worst pairs, the report shows

    Samples are {"image": [H, W, C], "label": int}.
    """

    monitor = "val/map@r"
    monitor_mode = "max"

    def __init__(
        self,
        *,
        embedding: Annotated[int, Range(2)] | None = 128,
        projection: Annotated[int, Range(2)] | None = None,
        loss: LossName | Mapping[LossName, Options | None] = "arcface",
        images_per_class: Annotated[int, Range(2)] | None = None,
        classes: Sequence[str] | None = None,
        mode: Literal["rgb", "gray"] | None = None,
        tta: Sequence[View] = (),
        recall: Sequence[Annotated[int, Range(1, NEAREST)]] = (1, 5),
        far: Sequence[Annotated[float, Range(above=0, below=1)]] = (0.01, 0.001),
        trials: Annotated[int, Range(1)] = 100_000,
        mistakes: Annotated[int, Range(0)] = 12,
    ) -> None:
        self.losses = Losses(loss)
        self.embedding, self.projection = embedding, projection
        self.mode, self.classes = mode, list(classes or ())
        self.images_per_class = images_per_class or (EACH if self.losses.compares else None)
        self.tta = check_views(tta)
        self.recall, self.far, self.trials, self.mistakes = list(recall), list(far), trials, mistakes

    # -- training ------------------------------------------------------------------------------------------------------
    def step(self, model: Module, batch: Any) -> Loss:
        made, labels = model(pdl.as_tensor(batch["image"])), pdl.as_tensor(batch["label"])
        embeddings = made.logits if isinstance(made, Auxiliary) else made
        if self.projection is not None:
            embeddings = model.get_submodule("projection")(embeddings)
        parts = self.losses(model.get_submodule("criterion"), embeddings, labels)
        total = sum((self.losses.weights[name] * value for name, value in parts.items()), start=pdl.zeros(()))
        shown: dict[str, Any] = {name: value.detach() for name, value in parts.items()} if len(parts) > 1 else {}
        return Loss(total, len(labels), parts=shown)

    def evaluate(self, model: Module, batch: Any) -> Loss:
        labels, viewed = batch["label"], with_views(model, self.tta, EmbeddingViews)
        embeddings = pdl.normalize(viewed(pdl.as_tensor(batch["image"])))
        seen = (np.array(embeddings.numpy()), labels, np.asarray(batch["index"]), batch["name"])
        return Loss(pdl.zeros(()), len(labels), seen, known=False)

    def metrics(self) -> dict[str, Metric]:
        return retrieval_metrics(Trials(most=self.trials), self.recall, self.far)

    def calibrate(self, evaluation: Evaluation) -> Mapping[str, Any]:
        """The cosine from which on a bundle answers that two images show the same: that of the EER."""
        scored: Scored = evaluation.details["trials"]
        threshold = scored.threshold()
        return {} if np.isnan(threshold) else {"threshold": threshold}

    # -- building ------------------------------------------------------------------------------------------------------
    def prepare(self, recipe: Recipe, datasets: Mapping[str, Any]) -> None:
        """Agree on the classes of training; see that no other split has one of them."""
        self.classes = learned_classes(self.classes, datasets, "classes")
        if found := known(datasets):
            raise DataError("\n".join(f"data.{each.split}: {each.what}; {each.advice}" for each in found))

    def facts(self, recipe: Recipe) -> Mapping[str, Any]:
        return {"num_classes": self.embedding or UNUSED}

    def model(self, recipe: Recipe) -> Module:
        """The recipe's model, with what its losses learn, and the threshold."""
        made: Any = super().model(recipe)
        size = self.embedding
        if size is None:
            owner, name, last = head_parts(made)
            setattr(owner, name, Identity())
            size = last.weight.shape[0]
        if self.projection is not None:
            made.projection = Linear(size, self.projection)
        if self.classes:
            made.criterion = self.losses.module(len(self.classes), self.projection or size)
        made.register_buffer("threshold", np.array([ALL], np.float32), exact=True)
        return made  # type: ignore[no-any-return]

    def check_model(self, model: Module, datasets: Mapping[str, Any], recipe: Recipe) -> None:
        """Run one image of each split through its transforms and the model."""
        plain = copy(self)
        plain.images_per_class = None  # of one image there are no batches of several of a class
        for images, source in first_images(plain, datasets, recipe):
            self.mode = plain.mode
            if isinstance(model, Deployed):
                continue
            shape = answer(model, images, source, recipe).shape
            if self.embedding is not None and shape != (1, self.embedding):
                raise ConfigError(
                    f"model: {recipe.model.target} gives outputs of shape {shape}, expected (1, {self.embedding}): "
                    f"set model.num_classes={self.embedding}, or leave it out"
                )

    def loader(self, dataset: Any, recipe: Recipe, *, training: bool, seed: int) -> DataLoader:
        images = OpenSet(dataset, numbered(dataset, self.classes) if training else None)
        each = self.images_per_class
        return retrieval_loader(images, recipe.data, training=training, seed=seed, each=each)

    def learned_config(self) -> dict[str, Any]:
        return {"classes": self.classes, "mode": self.mode}

    def baselines(self, recipe: Recipe, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
        """The cosine of small images."""
        return baselines(self, recipe, datasets, split)

    def data_at(self, path: Path, split: str) -> dict[str, Any]:
        """A folder of a folder for each class."""
        return {"_target_": "pdl_cv.data.ImageFolder", "root": str(path)}

    def check(self, recipe: Recipe, progress: Any = None) -> list[Fault]:
        return check_recipe(recipe, progress, each=self.images_per_class)

    def smoke_test(self, recipe: Recipe) -> SmokeTest:
        """Several images of each class, so that there are trials."""
        each = self.images_per_class or 1
        return SmokeTest(train=120, test=90, epochs=4, batch_size=max(2, 32 // each) * each)

    # -- what a task hands over ----------------------------------------------------------------------------------------
    def deployer(self, recipe: Recipe) -> RetrievalDeployer:
        return RetrievalDeployer(self, recipe)

    def previewer(self, recipe: Recipe) -> RetrievalPreviewer:
        return RetrievalPreviewer(self, recipe)

    def reporter(self) -> RetrievalReporter:
        return RetrievalReporter(self)
