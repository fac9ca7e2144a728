"""The task: which class, or which ones, a text belongs to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np

import pdl
from pdl.data import Fault, bucket_sizes, labels_of
from pdl.errors import ConfigError, DataError, listed
from pdl.hints import Range
from pdl.nn import Module
from pdl.train import Evaluation, Loss, Metric, Recipe, Task
from pdl.train.assembly import Parts
from pdl.train.class_loss import ClassLoss, ClassWeights, Gamma
from pdl.train.deployed import Deployed
from pdl.train.metrics import Mistakes, class_metrics
from pdl.train.parts import SmokeTest
from pdl_nlp.classification.baselines import baselines
from pdl_nlp.classification.check import check
from pdl_nlp.classification.deploy import TextClassificationDeployer
from pdl_nlp.classification.loader import Tokens
from pdl_nlp.classification.metrics import WrongSets, label_metrics, neutral_metrics, outside_metrics
from pdl_nlp.classification.outside import Outside, threshold, with_threshold
from pdl_nlp.classification.report import TextClassificationReporter
from pdl_nlp.classification.teacher import Teacher
from pdl_nlp.data.base import bind, several
from pdl_nlp.data.text_folder import split_folder
from pdl_nlp.fitting import WithTokenizer, small_encoder, small_tables
from pdl_nlp.loader import loader_of
from pdl_nlp.models.base import TextModel
from pdl_nlp.pretraining.losses import divergence


class TextClassification(WithTokenizer, Task):
    """One class for each text, by cross-entropy; or, where the data has several for a text, each label by itself, by
    binary cross-entropy.

    classes          their names in the order of their numbers; by default those of the training data
    several          whether texts have any number of classes; by default as the data has them
    outside          the class of texts that belong to none of the others. It is not learned: a text is outside where no
                     class is as likely as a threshold, which is chosen on val by the texts of this class there; those
                     in training are learned to be of all other classes alike
    neutral          a class that counts as none, such as "no emotion": macro_f1 and micro_f1 of the others are measured
    tokenizer        "words", "space" or "characters", whose vocabulary is that of the training texts; or a file or
                     folder that `pdl_nlp.tokenizers.read` takes (WordPiece, BPE, SentencePiece). By default that of the
                     model's `pretrained`, where it has one, else words. Run and bundle keep it
    lower            whether texts are lowered first; like the next two of words and characters
    min_count        tokens that occur less often in training are unknown
    vocabulary_size  the most tokens, padding and the unknown one among them
    max_length       tokens of a text that count, from its beginning, special ones included
    vectors          vectors of words that the model's table begins with: a file (.vec or .txt, lines `word 0.1 ...`) or
                     a run of `pdl_nlp.WordVectors`. Their words join the vocabulary
    label_smoothing  share of the target that is spread evenly over all classes; in training only, as the next two
    class_weights    weights of the classes in the loss, by name (others 1), or "balanced": all classes count alike
    focal_gamma      of the focal loss (Lin et al., arXiv 1708.02002); 0: plain cross-entropy
    teacher          a run, bundle or name of the hub with the same classes, whatever it reads, that this net is to
                     answer like (Hinton et al., arXiv 1503.02531): it sees all training texts once, at first
    distilled        the weight w of that: the loss is (1 - w) times the one of the classes plus w T^2 times the
                     divergence sum p log(p / q) of the teacher's p from the net's q, both softmax(logits / T)
    temperature      T
    mistakes         how many of the worst mistakes the report shows
    """

    monitor = "val/accuracy"
    monitor_mode = "max"

    def __init__(
        self,
        *,
        classes: Sequence[str] | None = None,
        several: bool | None = None,
        outside: str | None = None,
        neutral: str | None = None,
        tokenizer: str | Mapping[str, Any] | None = None,
        lower: bool = True,
        min_count: Annotated[int, Range(1)] = 1,
        vocabulary_size: Annotated[int, Range(3)] | None = None,
        max_length: Annotated[int, Range(1)] = 256,
        vectors: str | None = None,
        label_smoothing: Annotated[float, Range(0, below=1)] = 0.0,
        class_weights: ClassWeights | None = None,
        focal_gamma: Gamma = 0.0,
        teacher: str | None = None,
        distilled: Annotated[float, Range(0, 1)] = 0.5,
        temperature: Annotated[float, Range(above=0)] = 2.0,
        mistakes: Annotated[int, Range(0)] = 24,
    ) -> None:
        self.teacher, self.distilled, self.temperature = teacher, distilled, temperature
        self.classes, self.several, self.outside = list(classes or ()), several, outside
        self.neutral = neutral
        self.kind, self.lower, self.min_count, self.vocabulary_size = tokenizer, lower, min_count, vocabulary_size
        self.vectors = vectors
        self.max_length, self.label_smoothing, self.mistakes = max_length, label_smoothing, mistakes
        self.class_loss = ClassLoss(class_weights, focal_gamma)
        self.of_one_class = class_weights is not None or focal_gamma > 0 or label_smoothing > 0
        self.unlearned = [outside] if outside else []
        self.sizes: list[int] | None = None
        self.net: Module | None = None

    # -- training ------------------------------------------------------------------------------------------------------
    def step(self, model: Module, batch: Any) -> Loss:
        labels, logits = batch["label"], model(pdl.as_tensor(batch["tokens"]))
        if self.outside:
            count = len(self.classes) - 1
            shares = pdl.one_hot(pdl.as_tensor(labels), count + 1, dtype=logits.dtype)
            value = self.class_loss(
                logits, shares[:, :count] + shares[:, count:] / count, smoothing=self.label_smoothing
            )
        elif self.several:
            value = pdl.binary_cross_entropy_with_logits(logits, pdl.as_tensor(labels))
        else:
            value = self.class_loss(logits, labels, smoothing=self.label_smoothing)
        if "taught" in batch:
            taught, own = (pdl.expand_dims(pdl.as_tensor(each), axis=1) for each in (batch["taught"], logits))
            kl = divergence(taught, own, pdl.expand_dims(pdl.as_tensor(labels), axis=1), self.temperature)
            value = value * (1 - self.distilled) + kl * self.distilled
            return Loss(value, len(labels), (logits.detach(), labels), parts={"divergence": kl.detach()})
        return Loss(value, len(labels), (logits.detach(), labels))

    def evaluate(self, model: Module, batch: Any) -> Loss:
        labels, net = batch["label"], model if isinstance(model, Deployed) else self.answering(model)
        logits = net(pdl.as_tensor(batch["tokens"]))
        measured = pdl.binary_cross_entropy_with_logits if self.several else pdl.cross_entropy
        return Loss(measured(logits, pdl.as_tensor(labels)), len(labels), (logits, labels))

    def metrics(self) -> dict[str, Metric]:
        if self.several:
            return {**label_metrics(), "mistakes": WrongSets(self.mistakes)}
        own = outside_metrics() if self.outside else {}
        own |= neutral_metrics(self.classes.index(self.neutral)) if self.neutral else {}
        return {**class_metrics(len(self.classes)), **own, "mistakes": Mistakes(self.mistakes)}

    def update_metrics(self, metrics: dict[str, Metric], loss: Loss, batch: Any) -> None:
        for name, metric in metrics.items():
            metric.update(*loss.outputs, *((batch["index"],) if name == "mistakes" else ()))

    def calibrate(self, evaluation: Evaluation) -> Mapping[str, Any]:
        """The threshold of `outside`."""
        if not self.outside:
            return {}
        log_p, right, outside = evaluation.details["best_class"].T
        return {"threshold": threshold(log_p, right > 0, outside > 0)}

    def answering(self, model: Module) -> Module:
        """The model with all classes that it answers with."""
        return Outside(model) if self.outside else model

    # -- building ------------------------------------------------------------------------------------------------------
    def prepare(self, recipe: Recipe, datasets: Mapping[str, Any]) -> None:
        """Agree on the classes; number the tokens of the training texts."""
        self.agree(datasets)
        train = datasets.get("train")
        if train is None:
            if "tokens" not in self.vocabularies:
                raise DataError("data.train is needed to know the tokens; give it, or use the run that was trained")
            return
        texts = [train[index]["text"] for index in range(len(train))]
        self.fit_tokenizer(recipe, texts)
        lengths = np.diff(self.tokenizer.framed(texts, max_length=self.max_length).starts)
        self.sizes = bucket_sizes(np.maximum(lengths, 1))

    def agree(self, datasets: Mapping[str, Any]) -> None:
        """Number the classes of all splits alike; by default as training has them."""
        first = datasets.get("train", next(iter(datasets.values())))
        self.classes = self.classes or list(first.classes)
        if self.outside:
            self.classes = [*(name for name in self.classes if name != self.outside), self.outside]
        if len(self.classes) < 2 and not several(first):
            have = f"{len(self.classes)} classes ({listed(self.classes)})"
            raise DataError(f"the data has {have}; at least 2 are needed to tell them apart")
        for split, dataset in datasets.items():
            bind(dataset, self.classes)
            if self.several not in (None, several(dataset)):
                has, other = ("any number", "one") if several(dataset) else ("one", "any number")
                raise ConfigError(
                    f"data.{split}: texts have {has} of the classes, not {other} as expected; see several="
                )
            self.several = several(dataset)
        if self.outside and (self.several or self.class_loss.weights is not None or self.class_loss.gamma):
            raise ConfigError("task.outside: is for one class a text, without class_weights and focal_gamma")
        if self.neutral is not None and (self.several or self.neutral not in self.classes):
            raise ConfigError(f"task.neutral={self.neutral!r}: expected one of the classes {listed(self.classes)}")
        if self.teacher is not None and (self.several or self.outside):
            raise ConfigError("task.teacher: is for one class a text, and none of them outside")
        if self.several and self.of_one_class:
            raise ConfigError(
                "task: class_weights, focal_gamma and label_smoothing are for one class a text; none here"
            )
        if not self.several:
            self.class_loss.fit(self.classes, datasets)

    def facts(self, recipe: Recipe) -> Mapping[str, Any]:
        """Sizes of vocabulary and answers; those of a pretrained encoder where the recipe leaves them out."""
        return {**self.token_facts(recipe), "num_classes": len(self.classes) - (self.outside is not None)}

    def model(self, recipe: Recipe) -> Module:
        made = super().model(recipe)
        return with_threshold(made) if self.outside else made

    def check_model(self, model: Module, datasets: Mapping[str, Any], recipe: Recipe) -> None:
        if isinstance(model, Deployed):
            return
        if not isinstance(model, TextModel):
            raise ConfigError(f"model: {type(model).__name__} is no pdl_nlp.TextModel, so it reads no texts")
        if model.num_classes != (own := self.facts(recipe)["num_classes"]):
            raise ConfigError(
                f"model.num_classes={model.num_classes}, but the data has {own}; correct it, or leave it out"
            )
        self.check_reader(model, recipe)

    def loader(self, dataset: Any, recipe: Recipe, *, training: bool, seed: int) -> Iterable[Any]:
        """Batches by length; see `pdl_nlp.classification.loader`."""
        tokens = Tokens(dataset, self.tokenizer, self.max_length, self.sizes)
        if training and self.teacher is not None:
            texts = [dataset[index]["text"] for index in range(len(dataset))]
            tokens.taught = Teacher(self.teacher, self.classes).logits(texts)
        return loader_of(tokens, recipe.data, training=training, seed=seed)

    def assembled(self, parts: Parts, recipe: Recipe, *, training: bool) -> None:
        """Keep the model, by which the report finds what mattered in a text."""
        self.net = self.answering(parts.model)
        val = parts.datasets.get("val")
        asked = val is not None or "val" not in recipe.data.splits  # a preview or a profile reads no other split
        if training and self.outside and asked and val is not parts.datasets["train"]:  # it is in overfitting
            here = None if val is None else labels_of(val, "task.outside") == len(self.classes) - 1
            if here is None or here.all() or not here.any():
                raise DataError(
                    f"data.val: the threshold of task.outside={self.outside!r} needs texts inside and outside"
                )

    def learned_config(self) -> dict[str, Any]:
        return {"classes": self.classes, "several": self.several, "tokenizer": self.kind}

    # -- data ----------------------------------------------------------------------------------------------------------
    def baselines(self, recipe: Recipe, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
        """The most frequent class, and logistic regression on TF-IDF."""
        return baselines(self, datasets, split)

    def check(self, recipe: Recipe, progress: Any = None) -> list[Fault]:
        return check(self, recipe, progress)

    def data_at(self, path: Path, split: str) -> dict[str, Any]:
        """A folder of class folders, or a table with columns text and label."""
        if path.is_dir():
            own = None if split_folder(path, split) is None else split
            return {"_target_": "pdl_nlp.data.TextFolder", "root": str(path), "split": own, "classes": self.classes}
        return {"_target_": "pdl_nlp.data.TextFile", "path": str(path), "several": "," if self.several else None}

    # -- what a task hands over ----------------------------------------------------------------------------------------
    def deployer(self, recipe: Recipe) -> TextClassificationDeployer:
        return TextClassificationDeployer(self, recipe)

    def reporter(self) -> TextClassificationReporter:
        return TextClassificationReporter(self)

    def smoke_test(self, recipe: Recipe) -> SmokeTest:
        small = small_encoder(recipe)
        settings = {"task.min_count": 1, "task.teacher": None, **small, **small_tables(recipe)}
        return SmokeTest(settings={**settings, **({"optim.lr": 2e-3} if small else {})})
