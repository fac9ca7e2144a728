"""The task: vectors of texts, by what is said of pairs of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np

import pdl
from pdl.data import Fault, bucket_sizes
from pdl.errors import ConfigError, DataError
from pdl.hints import Range
from pdl.nn import Module
from pdl.tensor import Tensor
from pdl.train import Loss, Metric, Recipe, Task
from pdl.train.assembly import Parts
from pdl.train.deployed import Deployed
from pdl.train.parts import SmokeTest
from pdl_nlp.embedding.baselines import baselines
from pdl_nlp.embedding.check import check
from pdl_nlp.embedding.deploy import EmbeddingDeployer
from pdl_nlp.embedding.loader import Pairs
from pdl_nlp.embedding.losses import cosent, info_nce
from pdl_nlp.embedding.metrics import Scored, Spearman
from pdl_nlp.embedding.report import EmbeddingReporter
from pdl_nlp.fitting import WithTokenizer, small_encoder
from pdl_nlp.loader import loader_of, pairs_of, scores_of
from pdl_nlp.models.bert import SentenceEncoder

Objective: TypeAlias = Literal["info_nce", "cosent"]


class Embedding(WithTokenizer, Task):
    """Vectors of texts. Data has pairs (`pair`) with scores (`label`, numbers). Vectors are learned from the pairs that
    mean the same, where each text is to find its partner in its batch ("info_nce"), or from all pairs, whose cosines
    are to be in the order of their scores ("cosent"). Other splits are measured by Spearman's rank correlation of
    cosines and scores, and their loss is over all pairs.

    loss             "info_nce" (van den Oord et al., arXiv 1807.03748) or "cosent" (Su Jianlin, 2022)
    positive         training by "info_nce" takes the pairs with at least this score; by default the highest there is
    temperature      cosines are divided by it
    tokenizer        as in `pdl_nlp.TextClassification`, and so are the next four
    lower            whether texts are lowered first; like the next two of words and characters
    min_count        tokens that occur less often in training are unknown
    vocabulary_size  the most tokens, padding and the unknown one among them
    max_length       tokens of a text that count, from its beginning, special ones included
    """

    monitor = "val/spearman"
    monitor_mode = "max"

    def __init__(
        self,
        *,
        loss: Objective = "info_nce",
        positive: float | None = None,
        temperature: Annotated[float, Range(above=0)] = 0.05,
        tokenizer: str | Mapping[str, Any] | None = None,
        lower: bool = True,
        min_count: Annotated[int, Range(1)] = 1,
        vocabulary_size: Annotated[int, Range(3)] | None = None,
        max_length: Annotated[int, Range(1)] = 128,
    ) -> None:
        if loss == "cosent" and positive is not None:
            raise ConfigError(f"task.positive={positive:g}: loss=cosent learns from all scores; leave it out")
        self.loss, self.positive, self.temperature = loss, positive, temperature
        self.kind, self.lower, self.min_count, self.vocabulary_size = tokenizer, lower, min_count, vocabulary_size
        self.max_length = max_length
        self.sizes: list[int] | None = None
        self.net: Module | None = None

    # -- training ------------------------------------------------------------------------------------------------------
    def step(self, model: Module, batch: Any) -> Loss:
        count = len(batch["score"])
        both = model(pdl.concat([pdl.as_tensor(batch["tokens"]), pdl.as_tensor(batch["pair"])]))
        return Loss(self.cost(both[:count], both[count:], batch), count)

    def evaluate(self, model: Module, batch: Any) -> Loss:
        a, b = (model(pdl.as_tensor(batch[side])) for side in ("tokens", "pair"))
        likeness = (a * b).sum(axis=-1) / pdl.maximum(pdl.norm(a, axis=-1) * pdl.norm(b, axis=-1), 1e-12)
        return Loss(self.cost(a, b, batch), len(batch["score"]), (likeness, batch["score"]))

    def cost(self, a: Tensor, b: Tensor, batch: Any) -> Tensor:
        """The loss of vectors [N, C] of both sides."""
        if self.loss == "cosent":
            return cosent((a * b).sum(axis=-1), pdl.as_tensor(batch["score"]), self.temperature)
        return info_nce(a, b, self.temperature)

    def metrics(self) -> dict[str, Metric]:
        return {"spearman": Spearman(), "pairs": Scored()}

    def update_metrics(self, metrics: dict[str, Metric], loss: Loss, batch: Any) -> None:
        metrics["spearman"].update(*loss.outputs)
        metrics["pairs"].update(*loss.outputs, batch["index"])

    # -- building ------------------------------------------------------------------------------------------------------
    def prepare(self, recipe: Recipe, datasets: Mapping[str, Any]) -> None:
        """Number the tokens of the training texts; find what a pair that means the same has for a score."""
        train = datasets.get("train")
        if train is None:
            if "tokens" not in self.vocabularies:
                raise DataError("data.train is needed to know the tokens; give it, or use the run that was trained")
            return
        (texts, pairs), scores = pairs_of(train), scores_of(train)
        if self.positive is None and self.loss == "info_nce":
            self.positive = float(scores.max())
        self.fit_tokenizer(recipe, [*texts, *pairs])
        ends = [np.diff(self.tokenizer.framed(side, max_length=self.max_length).starts) for side in (texts, pairs)]
        self.sizes = bucket_sizes(np.maximum(np.maximum(*ends), 1))

    def facts(self, recipe: Recipe) -> Mapping[str, Any]:
        """The size of the vocabulary; sizes of a pretrained encoder where the recipe leaves them out."""
        return self.token_facts(recipe)

    def check_model(self, model: Module, datasets: Mapping[str, Any], recipe: Recipe) -> None:
        if isinstance(model, Deployed):
            return
        if not isinstance(model, SentenceEncoder):
            raise ConfigError(f"model: {type(model).__name__} is no pdl_nlp.SentenceEncoder, so it gives no vectors")
        if not model.normalised:
            raise ConfigError("model.normalised=false: contrast is of vectors of length 1; leave it out")
        self.check_reader(model, recipe)

    def loader(self, dataset: Any, recipe: Recipe, *, training: bool, seed: int) -> Iterable[Any]:
        """Batches of pairs by length; in training of those that mean the same."""
        positive = self.positive if training else None
        pairs = Pairs(dataset, self.tokenizer, self.max_length, self.sizes, positive)
        return loader_of(pairs, recipe.data, training=training, seed=seed)

    def assembled(self, parts: Parts, recipe: Recipe, *, training: bool) -> None:
        """Keep the model, by which the report finds the nearest texts."""
        self.net = parts.model

    def learned_config(self) -> dict[str, Any]:
        return {"positive": self.positive, "tokenizer": self.kind}

    # -- data ----------------------------------------------------------------------------------------------------------
    def baselines(self, recipe: Recipe, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
        """TF-IDF and BM25."""
        return baselines(self, datasets, split)

    def check(self, recipe: Recipe, progress: Any = None) -> list[Fault]:
        return check(recipe, progress)

    # -- what a task hands over ----------------------------------------------------------------------------------------
    def deployer(self, recipe: Recipe) -> EmbeddingDeployer:
        return EmbeddingDeployer(self, recipe)

    def reporter(self) -> EmbeddingReporter:
        return EmbeddingReporter(self)

    def smoke_test(self, recipe: Recipe) -> SmokeTest:
        return SmokeTest(
            settings={"task.min_count": 1, "task.positive": None, **small_encoder(recipe), "optim.lr": 2e-3}
        )
