"""The task: which class a pair of texts has, or how well texts fit a query."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import pdl
from pdl.data import Fault
from pdl.errors import ConfigError, DataError, listed
from pdl.hints import Range
from pdl.nn import Module
from pdl.train import Loss, Metric, Recipe, Task
from pdl.train.class_loss import ClassLoss, ClassWeights
from pdl.train.deployed import Deployed
from pdl.train.metrics import Mistakes, class_metrics
from pdl.train.parts import SmokeTest
from pdl_nlp.data.base import bind, several
from pdl_nlp.fitting import SPECIAL, WithTokenizer, small_encoder
from pdl_nlp.loader import pairs_of
from pdl_nlp.matching.baselines import baselines
from pdl_nlp.matching.check import check
from pdl_nlp.matching.deploy import MatchingDeployer
from pdl_nlp.matching.loader import Pairs, joined, loader_of_pairs
from pdl_nlp.matching.losses import ranking_loss
from pdl_nlp.matching.metrics import ranking_metrics
from pdl_nlp.matching.report import MatchingReporter
from pdl_nlp.models.base import MatchingModel
from pdl_nlp.models.bert import BERTClassifier
from pdl_nlp.tokenizers import BERT


class Matching(WithTokenizer, Task):
    """Pairs of texts (`pair` of the data). Either each has a class: the same or not, entailed, contradicted, neutral;
    or the first text is a query, the second one a candidate and the label a number, how relevant that is, and the
    candidates of each query are ranked. Models read the texts one by one (`pdl_nlp.SimNet`), compare their tokens
    (`pdl_nlp.ESIM`), or read both together (`pdl_nlp.BERTClassifier`, with segments).

    loss             "classes": cross-entropy over the classes of pairs. Of rankings: "binary", each candidate by
                     itself; "hinge", pairs of candidates of a query; "softmax" and "listnet", all candidates of a query
    margin           of "hinge", by which the better candidate is to lead
    classes          their names in the order of their numbers; by default those of the training data
    tokenizer        as in `pdl_nlp.TextClassification`, and so are the next four
    lower            whether texts are lowered first; like the next two of words and characters
    min_count        tokens that occur less often in training are unknown
    vocabulary_size  the most tokens, padding and the unknown one among them
    max_length       tokens of a text that count, from its beginning; of models that read both together, of both
    vectors          vectors of words that the model's table begins with, as in `pdl_nlp.TextClassification`
    label_smoothing  share of the target that is spread evenly over all classes; in training only, as the next one
    class_weights    weights of the classes in the loss, by name (others 1), or "balanced": all classes count alike
    mistakes         how many of the worst mistakes the report shows
    """

    monitor_mode = "max"

    def __init__(
        self,
        *,
        loss: Literal["classes", "binary", "hinge", "softmax", "listnet"] = "classes",
        margin: Annotated[float, Range(above=0)] = 1.0,
        classes: Sequence[str] | None = None,
        tokenizer: str | Mapping[str, Any] | None = None,
        lower: bool = True,
        min_count: Annotated[int, Range(1)] = 1,
        vocabulary_size: Annotated[int, Range(3)] | None = None,
        max_length: Annotated[int, Range(1)] = 128,
        vectors: str | None = None,
        label_smoothing: Annotated[float, Range(0, below=1)] = 0.0,
        class_weights: ClassWeights | None = None,
        mistakes: Annotated[int, Range(0)] = 24,
    ) -> None:
        self.loss, self.margin, self.ranked = loss, margin, loss != "classes"
        self.classes = list(classes or ())
        if self.ranked and (self.classes or label_smoothing or class_weights is not None):
            raise ConfigError(f"task: classes, label_smoothing and class_weights are for loss=classes, not {loss}")
        self.monitor = "val/mrr" if self.ranked else "val/accuracy"
        self.kind, self.lower, self.min_count, self.vocabulary_size = tokenizer, lower, min_count, vocabulary_size
        self.max_length, self.label_smoothing, self.mistakes = max_length, label_smoothing, mistakes
        self.class_loss, self.vectors = ClassLoss(class_weights), vectors
        self.sizes: list[int] | None = None

    # -- training ------------------------------------------------------------------------------------------------------
    def step(self, model: Module, batch: Any) -> Loss:
        scores = self._scores(model, batch)
        if self.ranked:
            return self._ranking(scores, batch)
        value = self.class_loss(scores, batch["label"], smoothing=self.label_smoothing)
        return Loss(value, len(batch["label"]), (scores.detach(), batch["label"]))

    def evaluate(self, model: Module, batch: Any) -> Loss:
        scores = self._scores(model, batch)
        if self.ranked:
            return self._ranking(scores, batch)
        measured = pdl.cross_entropy(scores, pdl.as_tensor(batch["label"]))
        return Loss(measured, len(batch["label"]), (scores, batch["label"]))

    def _scores(self, model: Module, batch: Any) -> pdl.Tensor:
        both = batch["segments" if "segments" in batch else "pair"]
        found: pdl.Tensor = model(pdl.as_tensor(batch["tokens"]), pdl.as_tensor(both))
        return found[:, 0] if self.ranked else found

    def _ranking(self, scores: pdl.Tensor, batch: Any) -> Loss:
        relevance, query = batch["relevance"], batch["query"]
        kind: Any = self.loss
        value = ranking_loss(kind, scores, pdl.as_tensor(relevance), pdl.as_tensor(query), margin=self.margin)
        return Loss(value, len(query), (scores.detach(), relevance, query))

    def metrics(self) -> dict[str, Metric]:
        if self.ranked:
            return ranking_metrics(self.mistakes)
        return {**class_metrics(len(self.classes)), "mistakes": Mistakes(self.mistakes)}

    def update_metrics(self, metrics: dict[str, Metric], loss: Loss, batch: Any) -> None:
        outputs = tuple(each.numpy() if isinstance(each, pdl.Tensor) else each for each in loss.outputs)
        for name, metric in metrics.items():
            metric.update(*outputs, *((batch["index"],) if self.ranked or name == "mistakes" else ()))

    # -- building ------------------------------------------------------------------------------------------------------
    def prepare(self, recipe: Recipe, datasets: Mapping[str, Any]) -> None:
        """Agree on the classes; number the tokens of the training texts."""
        self.agree(datasets)
        train = datasets.get("train")
        if train is None:
            if "tokens" not in self.vocabularies:
                raise DataError("data.train is needed to know the tokens; give it, or use the run that was trained")
            return
        texts, pairs = pairs_of(train)
        self.fit_tokenizer(recipe, [*texts, *pairs], special=BERT if joined(recipe) else SPECIAL)
        self.sizes = self.numbers(train, recipe).sizes.tolist()

    def agree(self, datasets: Mapping[str, Any]) -> None:
        """Number the classes of all splits alike; by default as training has them."""
        for split, dataset in datasets.items():
            pairs_of(dataset)
            if several(dataset):
                raise ConfigError(f"data.{split}: pairs have any number of classes; one is needed, leave out several=")
        if self.ranked:
            return
        first = datasets.get("train", next(iter(datasets.values())))
        self.classes = self.classes or list(first.classes)
        if len(self.classes) < 2:
            have = f"{len(self.classes)} classes ({listed(self.classes)})"
            raise DataError(f"the data has {have}; at least 2 are needed to tell them apart")
        for dataset in datasets.values():
            bind(dataset, self.classes)
        self.class_loss.fit(self.classes, datasets)

    def facts(self, recipe: Recipe) -> Mapping[str, Any]:
        """Sizes of vocabulary and answers; those of a pretrained encoder where the recipe leaves them out."""
        return {**self.token_facts(recipe), "num_classes": 1 if self.ranked else len(self.classes)}

    def check_model(self, model: Module, datasets: Mapping[str, Any], recipe: Recipe) -> None:
        if isinstance(model, Deployed):
            return
        if not isinstance(model, MatchingModel | BERTClassifier):
            kinds = "neither a pdl_nlp.MatchingModel nor a pdl_nlp.BERTClassifier"
            raise ConfigError(f"model: {type(model).__name__} is {kinds}, so it reads no pairs of texts")
        if model.num_classes != (own := self.facts(recipe)["num_classes"]):
            given = f"model.num_classes={model.num_classes}"
            raise ConfigError(f"{given}, but {own} are needed; correct it, or leave it out")
        self.check_reader(model, recipe)

    def numbers(self, dataset: Any, recipe: Recipe, sizes: Sequence[int] | None = None) -> Pairs:
        """The pairs of a data set as numbers."""
        whole = joined(recipe)
        return Pairs(dataset, self.tokenizer, self.max_length, sizes, joined=whole, ranked=self.ranked)

    def loader(self, dataset: Any, recipe: Recipe, *, training: bool, seed: int) -> Iterable[Any]:
        """Batches by length, of whole queries where the loss compares their candidates."""
        pairs, by_query = self.numbers(dataset, recipe, self.sizes), self.loss in ("hinge", "softmax", "listnet")
        return loader_of_pairs(pairs, recipe.data, by_query=by_query, training=training, seed=seed)

    def learned_config(self) -> dict[str, Any]:
        return {"tokenizer": self.kind, **({} if self.ranked else {"classes": self.classes})}

    # -- data ----------------------------------------------------------------------------------------------------------
    def baselines(self, recipe: Recipe, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
        """The most frequent class, and words that two texts share."""
        return baselines(self, datasets, split)

    def check(self, recipe: Recipe, progress: Any = None) -> list[Fault]:
        return check(self, recipe, progress)

    def data_at(self, path: Path, split: str) -> dict[str, Any]:
        """A table with columns text, pair and label."""
        return {"_target_": "pdl_nlp.data.TextFile", "path": str(path), "pair": "pair"}

    # -- what a task hands over ----------------------------------------------------------------------------------------
    def deployer(self, recipe: Recipe) -> MatchingDeployer:
        return MatchingDeployer(self, recipe)

    def reporter(self) -> MatchingReporter:
        return MatchingReporter(self)

    def smoke_test(self, recipe: Recipe) -> SmokeTest:
        return SmokeTest(settings={"task.min_count": 1, **small_encoder(recipe), "optim.lr": 2e-3})
