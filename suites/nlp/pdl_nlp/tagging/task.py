"""The task: a tag for each token, or the words and names that a text consists of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np

import pdl
from pdl.data import Fault, bucket_sizes
from pdl.errors import ConfigError, DataError
from pdl.hints import Range
from pdl.nn import Module
from pdl.train import Loss, Metric, Recipe, Task
from pdl.train.deployed import Deployed
from pdl.train.parts import SmokeTest
from pdl.vocabulary import Vocabulary
from pdl_nlp import checkpoints
from pdl_nlp.data.base import sorted_names
from pdl_nlp.fitting import (
    Kind,
    WithTokenizer,
    check_length,
    small_encoder,
    small_tables,
    tokenizer_of,
    vocabulary_of,
)
from pdl_nlp.loader import loader_of
from pdl_nlp.models.rnn_tagger import TaggingModel
from pdl_nlp.schemes import Scheme, Tags
from pdl_nlp.steps.letters import WIDEST, Letters
from pdl_nlp.tagging.baselines import baselines
from pdl_nlp.tagging.check import check
from pdl_nlp.tagging.deploy import TaggingDeployer
from pdl_nlp.tagging.loader import Tagged, lowered, pieces
from pdl_nlp.tagging.metrics import WorstSentences, tag_metrics
from pdl_nlp.tagging.report import TaggingReporter
from pdl_nlp.tokenizers import Tokenizer


class Tagging(WithTokenizer, Task):
    """A tag for each token of a text: parts of speech; entities and slots, whose tags mark spans (IO, BIO, BIOES,
    BMES); or, with `segment`, words with tags out of characters. With a CRF by -log p of all tags of a text, else by
    the cross-entropy of each. Answers hold to the scheme.

    classes          the tags in the order of their numbers; by default those of the data, all splits together
    scheme           how tags mark spans; by default as they are written. With `segment` how words are marked, by
                     default BMES
    segment          the data's tokens are words, which are to be found in texts without spaces
    marks            the tags are of marks that follow tokens, and these are written: {COMMA: ","}. Each tag is then
                     counted by itself, and a bundle answers with the text and its marks
    entities         kinds of spans whose F1 is measured by itself, such as [nr, ns, nt]
    tokenizer        what texts are cut into that a bundle is asked about, as the data's tokens are: "words" (letters in
                     a row, and every sign alone), "space" (what stands between white space) or "characters"
    lower            whether tokens are lowered first; letters keep their case
    letters          letters of each word that the model reads, too; 0: none
    min_count        tokens that occur less often in training are unknown
    vocabulary_size  the most tokens, padding and the unknown one among them
    max_length       tokens of a text that count, from its beginning
    vectors          vectors of words that the model's table begins with: a file (.vec or .txt, lines `word 0.1 ...`) or
                     a run of `pdl_nlp.WordVectors`. Their words join the vocabulary
    mistakes         how many of the worst mistakes the report shows
    scores           answers of bundles say how probable each span is: the product of the probabilities of its tags, by
                     forward and backward sums of the CRF
    """

    monitor = "val/f1"
    monitor_mode = "max"

    def __init__(
        self,
        *,
        classes: Sequence[str] | None = None,
        scheme: Scheme | None = None,
        segment: bool = False,
        marks: Mapping[str, str] | None = None,
        entities: Sequence[str] = (),
        tokenizer: Kind = "words",
        lower: bool = True,
        letters: Annotated[int, Range(0, WIDEST)] = 0,
        min_count: Annotated[int, Range(1)] = 1,
        vocabulary_size: Annotated[int, Range(3)] | None = None,
        max_length: Annotated[int, Range(1)] = 512,
        vectors: str | None = None,
        mistakes: Annotated[int, Range(0)] = 24,
        scores: bool = False,
    ) -> None:
        self.classes, self.entities, self.marks = list(classes or ()), list(entities), dict(marks or {})
        self.scheme: Scheme | None = scheme or ("BIO" if marks else None)  # a tag without a letter marks one token
        self.segment: Scheme | None = (scheme or "BMES") if segment else None
        if segment and (tokenizer != "characters" or self.segment not in ("BIO", "BIOES", "BMES") or letters):
            raise ConfigError(
                "task: segment=true finds words in characters; give tokenizer=characters, letters=0 and "
                f"a scheme of BIO, BIOES and BMES, not {tokenizer}, {letters} and {self.segment}"
            )
        self.kind, self.lower, self.letters, self.vectors = tokenizer, lower, letters, vectors
        self.min_count, self.vocabulary_size = min_count, vocabulary_size
        self.max_length, self.mistakes, self.scores = max_length, mistakes, scores
        if scores and marks:
            raise ConfigError("task.scores: marks are written into the text, which has no place for them; leave it out")
        self.sizes: list[int] | None = None

    # -- training ------------------------------------------------------------------------------------------------------
    def step(self, model: Any, batch: Any) -> Loss:
        tags, lengths = pdl.as_tensor(batch["tags"]), pdl.as_tensor(batch["length"])
        losses = model.loss(model(*self._inputs(batch)), tags, lengths)
        return Loss(losses.mean(), len(batch["tags"]))

    def evaluate(self, model: Any, batch: Any) -> Loss:
        count = len(batch["tags"])
        if isinstance(model, Deployed):
            found = model(*self._inputs(batch))
            best = found[0] if self.scores else found
            return Loss(pdl.zeros(()), count, (best, batch["tags"], np.zeros(count)), known=False)
        tags, lengths = pdl.as_tensor(batch["tags"]), pdl.as_tensor(batch["length"])
        emissions = model(*self._inputs(batch))
        losses = model.loss(emissions, tags, lengths)
        return Loss(
            losses.mean(), count, (model.decode(emissions, lengths, self.tags.forbidden), batch["tags"], losses)
        )

    def _inputs(self, batch: Any) -> list[pdl.Tensor]:
        return [pdl.as_tensor(batch[name]) for name in ("tokens", *(("letters",) if self.letters else ()))]

    def metrics(self) -> dict[str, Metric]:
        made = tag_metrics(self.tags, segment=self.segment is not None, entities=self.entities)
        return {**made, "mistakes": WorstSentences(self.mistakes)}

    def update_metrics(self, metrics: dict[str, Metric], loss: Loss, batch: Any) -> None:
        found, tags, losses = (each.numpy() if isinstance(each, pdl.Tensor) else each for each in loss.outputs)
        for name, metric in metrics.items():
            metric.update(found, tags, *((losses, batch["index"]) if name == "mistakes" else ()))

    # -- building ------------------------------------------------------------------------------------------------------
    def prepare(self, recipe: Recipe, datasets: Mapping[str, Any]) -> None:
        """Agree on the tags; number the tokens, and letters, of the training texts."""
        self.agree(datasets)
        train = datasets.get("train")
        if train is None:
            if "tokens" not in self.vocabularies:
                raise DataError("data.train is needed to know the tokens; give it, or use the run that was trained")
            return
        found = [pieces(train[index], train.classes, self.segment)[0] for index in range(len(train))]
        begin = recipe.model.get("pretrained")
        if "tokens" not in self.vocabularies and begin is not None:
            self.vocabularies["tokens"] = self._vocabulary_of(begin)
        if "tokens" not in self.vocabularies:
            counts = Counter(token for tokens in found for token in tokens)
            low = Counter[str]()
            for token, count in counts.items():
                low[lowered(token) if self.lower else token] += count
            self.fit_vocabulary(low)
            if self.letters:
                spelled = Counter[str]()
                for token, count in counts.items():
                    spelled.update(dict.fromkeys(token, count))
                self.vocabularies["letters"] = vocabulary_of(spelled, min_count=2)
        self.sizes = bucket_sizes(np.clip([len(tokens) for tokens in found], 1, self.max_length))

    def _vocabulary_of(self, begin: str) -> Vocabulary:
        """The tokens of the checkpoint that the model begins with, which are to be characters as the data's."""
        made = checkpoints.tokenizer(begin)
        lower = getattr(made, "lower", self.lower)
        if (
            made.kind not in ("characters", "wordpiece")
            or self.kind != "characters"
            or lower != self.lower
            or made.pad != 0
        ):
            raise ConfigError(
                f"model.pretrained={begin}: encoders are taken that read characters, with padding for number 0 (this "
                f"one: {made.kind}, {made.pad}); give task.tokenizer=characters and task.lower={str(lower).lower()}"
            )
        return made.vocabulary

    def agree(self, datasets: Mapping[str, Any]) -> None:
        """Number the tags of all splits alike; by default as they occur in any of them."""
        if self.classes:
            return
        if self.segment is None:
            self.classes = sorted_names(name for data in datasets.values() for name in data.classes)
        else:
            made = (
                pieces(data[i], data.classes, self.segment)[1] for data in datasets.values() for i in range(len(data))
            )
            self.classes = sorted_names(name for names in made for name in names)
        if len(self.classes) < 2:
            raise DataError(f"the data has {len(self.classes)} tags; at least 2 are needed to tell them apart")

    @cached_property
    def tags(self) -> Tags:
        """The tags, once they are known."""
        found = Tags(self.classes, self.segment or self.scheme)
        for name, kinds in (("entities", self.entities), ("marks", self.marks)):
            if wrong := sorted(set(kinds) - set(found.kinds)):
                raise ConfigError(f"task.{name}: {', '.join(wrong)}: no spans of this kind in the data")
        return found

    @cached_property
    def tokenizer(self) -> Tokenizer:
        """The tokenizer, once the vocabulary is known."""
        return tokenizer_of(self.vocabularies["tokens"], self.kind, lower=self.lower, framed=False)

    def text_of(self, sample: Mapping[str, Any]) -> str:
        """The tokens of a sentence as a text."""
        return self.tokenizer.joined(sample["tokens"])

    def facts(self, recipe: Recipe) -> Mapping[str, Any]:
        return {**self._sizes(), **self.token_facts(recipe)}

    def _sizes(self) -> dict[str, int]:
        letters = len(self.vocabularies["letters"]) if self.letters else 0
        return {"vocab_size": len(self.vocabularies["tokens"]), "num_classes": len(self.classes), "letters": letters}

    def check_model(self, model: Module, datasets: Mapping[str, Any], recipe: Recipe) -> None:
        if isinstance(model, Deployed):
            return
        if not isinstance(model, TaggingModel):
            raise ConfigError(f"model: {type(model).__name__} is no pdl_nlp.TaggingModel, so it tags no tokens")
        tables = ["vocab_size"] if recipe.model.get("pretrained") is not None else []  # whose rows may be more
        for name, own in self._sizes().items():
            if getattr(model, name) != own and not (name in tables and getattr(model, name) > own):
                raise ConfigError(
                    f"model.{name}={getattr(model, name)}, but the data has {own}; correct it, or leave it out"
                )
        check_length(model, self.max_length)

    def loader(self, dataset: Any, recipe: Recipe, *, training: bool, seed: int) -> Iterable[Any]:
        """Batches by length; see `pdl_nlp.tagging.loader`."""
        return loader_of(self.numbers(dataset, self.sizes), recipe.data, training=training, seed=seed)

    def numbers(self, dataset: Any, sizes: Sequence[int] | None = None) -> Tagged:
        """The sentences of a data set as numbers."""
        letters = Letters(self.vocabularies["letters"], self.letters) if self.letters else None
        unknown = self.tokenizer.unknown
        assert unknown is not None, "tokenizers of words and characters have an unknown token"
        return Tagged(dataset, self.vocabularies["tokens"], self.classes, lower=self.lower, max_length=self.max_length,
                      unknown=unknown, segment=self.segment, letters=letters, sizes=sizes)  # fmt: skip

    def learned_config(self) -> dict[str, Any]:
        return {"classes": self.classes}

    # -- data ----------------------------------------------------------------------------------------------------------
    def baselines(self, recipe: Recipe, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
        """The most frequent tag, and a dictionary of the training words."""
        return baselines(self, datasets, split)

    def check(self, recipe: Recipe, progress: Any = None) -> list[Fault]:
        return check(self, recipe, progress)

    def data_at(self, path: Path, split: str) -> dict[str, Any]:
        """A file of columns, or of word/TAG where words are to be found."""
        form = {"form": "words"} if self.segment is not None else {}
        return {"_target_": "pdl_nlp.data.TaggedFile", "path": str(path), **form}

    # -- what a task hands over ----------------------------------------------------------------------------------------
    def deployer(self, recipe: Recipe) -> TaggingDeployer:
        return TaggingDeployer(self, recipe)

    def reporter(self) -> TaggingReporter:
        return TaggingReporter(self)

    def smoke_test(self, recipe: Recipe) -> SmokeTest:
        small = small_encoder(recipe)
        settings = {"task.min_count": 1, "task.entities": [], **small, **small_tables(recipe)}
        return SmokeTest(settings={**settings, **({"optim.lr": 2e-3} if small else {})})
