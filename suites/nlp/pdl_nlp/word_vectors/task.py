"""The task: a vector for every word, learned of texts alone, for tasks with few texts of their own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import pdl
from pdl.data import DataLoader, Fault
from pdl.errors import ConfigError, DataError
from pdl.hints import Range
from pdl.nn import Module
from pdl.train import Loss, Metric, Recipe, Task
from pdl.train.deployed import Deployed
from pdl.train.parts import SmokeTest
from pdl_nlp.fitting import WithTokenizer, letters_of, small_tables
from pdl_nlp.models.word2vec import Word2Vec
from pdl_nlp.steps.letters import WIDEST, Letters
from pdl_nlp.word_vectors.baselines import baselines
from pdl_nlp.word_vectors.check import check
from pdl_nlp.word_vectors.deploy import WordVectorsDeployer
from pdl_nlp.word_vectors.loader import Windows, texts_of
from pdl_nlp.word_vectors.metrics import ContextAUC
from pdl_nlp.word_vectors.report import WordVectorsReporter


class WordVectors(WithTokenizer, Task):
    """Vectors of words by the words around them (word2vec, fastText), learned of texts without labels: of any data set
    of texts, such as `PlainText`. Other tasks begin with them (`task.vectors=RUN`); a run answers with the words
    nearest to one.

    num_negatives    words that each context is compared with, in the mean over
    num_shared       negatives of a batch, shared by all its contexts
    subsample        words with a share f of all are kept with the probability sqrt(subsample / f) + subsample / f
    length           words of a piece of a text; a batch holds `data.batch_size` pieces
    tokenizer        as in `pdl_nlp.TextClassification`, and so are the next four
    lower            whether texts are lowered first; like the next two of words and characters
    min_count        tokens that occur less often are left out of the texts
    vocabulary_size  the most tokens, padding and the unknown one among them
    letters          letters of each word that the model reads (FastText); 0: none
    """

    overfits = ""  # it learns of pieces of texts, drawn anew for every epoch

    def __init__(
        self,
        *,
        num_negatives: Annotated[int, Range(1)] = 5,
        num_shared: Annotated[int, Range(1)] = 64,
        subsample: Annotated[float, Range(above=0)] | None = 1e-3,
        length: Annotated[int, Range(2)] = 64,
        tokenizer: str | Mapping[str, Any] | None = None,
        lower: bool = True,
        min_count: Annotated[int, Range(1)] = 5,
        vocabulary_size: Annotated[int, Range(3)] | None = None,
        letters: Annotated[int, Range(0, WIDEST)] = 0,
    ) -> None:
        self.num_negatives, self.num_shared, self.subsample, self.length = num_negatives, num_shared, subsample, length
        self.kind, self.lower, self.min_count, self.vocabulary_size = tokenizer, lower, min_count, vocabulary_size
        self.letters = letters
        self.window, self._deployed = 1, False
        self.evaluated: Word2Vec | None = None  # what was evaluated last: the report shows neighbours

    # -- training ------------------------------------------------------------------------------------------------------
    def step(self, model: Any, batch: Any) -> Loss:
        tokens, negatives = pdl.as_tensor(batch["tokens"]), pdl.as_tensor(batch["negatives"])
        letters = pdl.as_tensor(batch["letters"]) if self.letters else None
        own, weight, other = model.scores(tokens, letters, negatives)
        contexts = weight.sum(axis=2, keepdims=True)
        among = (pdl.softplus(other) * contexts).sum() * (self.num_negatives / negatives.shape[0])
        total = (pdl.softplus(-own) * weight).sum() + among
        count = pdl.maximum(contexts.sum(), 1.0)
        return Loss(total / count, count, (own, weight, other))

    def evaluate(self, model: Any, batch: Any) -> Loss:
        if isinstance(model, Deployed):
            return Loss(pdl.zeros(()), len(batch["tokens"]), known=False)
        self.evaluated = model
        return self.step(model, batch)

    def metrics(self) -> dict[str, Metric]:
        """Bundles hold no vectors of words as contexts, and so tell no contexts."""
        return {} if self._deployed else {"auc": ContextAUC()}

    # -- building ------------------------------------------------------------------------------------------------------
    def prepare(self, recipe: Recipe, datasets: Mapping[str, Any]) -> None:
        """Number the words of the training texts, and their letters."""
        train = datasets.get("train")
        if train is None:
            if "tokens" not in self.vocabularies:
                raise DataError("data.train is needed to know the words; give it, or use the run that was trained")
            return
        self.fit_tokenizer(recipe, texts_of(train))
        if self.letters and "letters" not in self.vocabularies:
            self.vocabularies["letters"] = letters_of(self.tokenizer.tokens[2:])

    @property
    def speller(self) -> Letters | None:
        """What makes numbers of the letters of words."""
        return Letters(self.vocabularies["letters"], self.letters, lower=self.lower) if self.letters else None

    def facts(self, recipe: Recipe) -> Mapping[str, Any]:
        letters = len(self.vocabularies["letters"]) if self.letters else 0
        return {"vocab_size": len(self.vocabularies["tokens"]), "letters": letters}

    def check_model(self, model: Module, datasets: Mapping[str, Any], recipe: Recipe) -> None:
        if isinstance(model, Deployed):
            self._deployed = True
            return
        if not isinstance(model, Word2Vec):
            raise ConfigError(f"model: {type(model).__name__} is no pdl_nlp.Word2Vec, so it gives words no vectors")
        for name, own in self.facts(recipe).items():
            if getattr(model, name) != own:
                given = f"{getattr(model, name)}, but the data has {own}"
                unread = name == "letters" and not model.letters
                advice = "set task.letters=0" if unread else "correct it, or leave it out"
                raise ConfigError(f"model.{name}: {given}; {advice}")
        self.window = model.window

    def loader(self, dataset: Any, recipe: Recipe, *, training: bool, seed: int) -> Iterable[Any]:
        """Pieces of the texts; in training with frequent words thinned out, in a new order each epoch."""
        source = self.windows(dataset, seed=seed, subsample=self.subsample if training else None)
        data = recipe.data
        size = data.size(training=training)
        return DataLoader(
            source, batch_size=size, shuffle=training, seed=seed, workers=data.workers, prefetch=data.prefetch
        )

    def windows(self, dataset: Any, *, seed: int, subsample: float | None = None) -> Windows:
        """The texts of a data set as pieces of numbers."""
        common: dict[str, Any] = {"window": self.window, "length": self.length, "negatives": self.num_shared}
        return Windows(dataset, self.tokenizer, **common, subsample=subsample, seed=seed, letters=self.speller)

    def learned_config(self) -> dict[str, Any]:
        return {"tokenizer": self.kind}

    # -- data ----------------------------------------------------------------------------------------------------------
    def baselines(self, recipe: Recipe, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
        """How often words occur, and how often two occur together."""
        return baselines(self, datasets, split)

    def check(self, recipe: Recipe, progress: Any = None) -> list[Fault]:
        return check(self, recipe, progress)

    # -- what a task hands over ----------------------------------------------------------------------------------------
    def deployer(self, recipe: Recipe) -> WordVectorsDeployer:
        return WordVectorsDeployer(self, recipe)

    def reporter(self) -> WordVectorsReporter:
        return WordVectorsReporter(self)

    def smoke_test(self, recipe: Recipe) -> SmokeTest:
        small = {"task.min_count": 1, "task.subsample": None, "model.dim": 16, **small_tables(recipe)}
        return SmokeTest(settings={**small, "optim.lr": 0.05})
