"""The task: the piece of a paragraph that answers a question."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import numpy as np

import pdl
from pdl.data import Fault
from pdl.errors import ConfigError, DataError
from pdl.hints import Range
from pdl.nn import Module
from pdl.train import Loss, Metric, Recipe, Task
from pdl.train.deployed import Deployed
from pdl.train.parts import SmokeTest
from pdl_nlp.fitting import SPECIAL, WithTokenizer, small_encoder
from pdl_nlp.loader import loader_of
from pdl_nlp.models.base import ReadingModel
from pdl_nlp.span_extraction.baselines import baselines
from pdl_nlp.span_extraction.check import check
from pdl_nlp.span_extraction.deploy import SpanExtractionDeployer
from pdl_nlp.span_extraction.loader import Windows
from pdl_nlp.span_extraction.metrics import Scoring, answer_metrics, mostly_chinese
from pdl_nlp.span_extraction.report import SpanExtractionReporter
from pdl_nlp.steps.answers import best_spans
from pdl_nlp.steps.windows import Reading
from pdl_nlp.tokenizers import BERT


class SpanExtraction(WithTokenizer, Task):
    """Reading comprehension: where in a paragraph the answer to a question begins and ends, each by cross-entropy. The
    answer is the span with the highest p(begin) p(end). Long paragraphs are read in windows that overlap; windows
    without the answer, and questions without one, learn that token 0 is it.

    scoring          whose evaluation script counts: "squad" or "cmrc"; by default cmrc where most letters of the
                     training paragraphs are Chinese (`pdl_nlp.span_extraction.metrics`)
    unanswerable     whether a question may have no answer; by default as the training data has it
    max_answer       tokens of the longest answer
    max_length       tokens of a window, of a net that reads both at once with the question and special tokens
    overlap          tokens that neighbouring windows share
    question_length  tokens of a question that count, from its beginning
    tokenizer        as in `pdl_nlp.TextClassification`, and so are the next four; by default characters where most
                     letters are Chinese
    vectors          the vectors of words that the model begins with
    lower            whether texts are lowered first; like the next two of words and characters
    min_count        tokens that occur less often in training are unknown
    vocabulary_size  the most tokens, padding and the unknown one among them
    mistakes         how many of the worst mistakes the report shows
    """

    monitor = "val/f1"
    monitor_mode = "max"

    def __init__(
        self,
        *,
        scoring: Scoring | None = None,
        unanswerable: bool | None = None,
        max_answer: Annotated[int, Range(1)] = 30,
        max_length: Annotated[int, Range(2)] = 384,
        overlap: Annotated[int, Range(0)] = 128,
        question_length: Annotated[int, Range(1)] = 64,
        tokenizer: str | Mapping[str, Any] | None = None,
        vectors: str | None = None,
        lower: bool = True,
        min_count: Annotated[int, Range(1)] = 1,
        vocabulary_size: Annotated[int, Range(3)] | None = None,
        mistakes: Annotated[int, Range(0)] = 24,
    ) -> None:
        if overlap >= max_length:
            raise ConfigError(f"task.overlap={overlap} must be less than task.max_length={max_length}")
        self.scoring, self.unanswerable, self.max_answer = scoring, unanswerable, max_answer
        self.max_length, self.overlap, self.question_length = max_length, overlap, question_length
        self.kind, self.lower, self.min_count, self.vocabulary_size = tokenizer, lower, min_count, vocabulary_size
        self.vectors, self.mistakes, self.together = vectors, mistakes, False

    # -- training ------------------------------------------------------------------------------------------------------
    def step(self, model: Module, batch: Any) -> Loss:
        logits = model(*self._inputs(batch))
        return Loss(self._loss(logits, batch), len(batch["begin"]))

    def evaluate(self, model: Module, batch: Any) -> Loss:
        inputs = self._inputs(batch)
        if isinstance(model, Deployed):  # which takes several windows of each paragraph
            logits = model(*(pdl.expand_dims(each, axis=1) for each in inputs))[:, 0]
        else:
            logits = model(*inputs)
        allowed = np.asarray(batch["offsets"])[..., 1] > 0
        best = best_spans(logits.numpy(), allowed, self.max_answer)
        of = (batch["offsets"], batch["row"], batch["paragraph"], batch["answers"])
        return Loss(self._loss(logits, batch), len(batch["begin"]), (best, *of))

    def _inputs(self, batch: Any) -> list[pdl.Tensor]:
        other = "segments" if self.together else "question"
        return [pdl.as_tensor(batch[name]) for name in ("tokens", other)]

    def _loss(self, logits: pdl.Tensor, batch: Any) -> pdl.Tensor:
        begin, end = (
            pdl.cross_entropy(logits[..., side], pdl.as_tensor(batch[name]))
            for side, name in enumerate(("begin", "end"))
        )
        return (begin + end) * 0.5

    def metrics(self) -> dict[str, Metric]:
        assert self.scoring is not None
        return answer_metrics(self.scoring, unanswerable=bool(self.unanswerable))

    # -- building ------------------------------------------------------------------------------------------------------
    def prepare(self, recipe: Recipe, datasets: Mapping[str, Any]) -> None:
        """Number the tokens of the training texts; find how answers are counted, and whether there may be none."""
        self.together = bool(getattr(recipe.model.cls, "together", False))
        train = datasets.get("train")
        if train is None:
            if "tokens" not in self.vocabularies:
                raise DataError("data.train is needed to know the tokens; give it, or use the run that was trained")
            return
        samples = [train[index] for index in range(len(train))]
        if "question" not in samples[0]:
            raise DataError(f"data.train: {type(train).__name__} has no questions; take pdl_nlp.data.QuestionFile")
        paragraphs = list(dict.fromkeys(sample["paragraph"] for sample in samples))
        chinese = mostly_chinese(paragraphs)
        self.scoring = self.scoring or ("cmrc" if chinese else "squad")
        if self.kind is None and recipe.model.get("pretrained") is None:
            self.kind = "characters" if chinese else "words"
        if self.unanswerable is None:
            self.unanswerable = not all(sample["answers"] for sample in samples)
        texts = [*paragraphs, *(sample["question"] for sample in samples)]
        self.fit_tokenizer(recipe, texts, special=BERT if self.together else SPECIAL)

    def reading(self, *, together: bool) -> Reading:
        """How the net reads paragraphs."""
        return Reading(self.max_length, self.overlap, self.question_length, together)

    def facts(self, recipe: Recipe) -> Mapping[str, Any]:
        """The size of the vocabulary; sizes of a pretrained encoder where the recipe leaves them out."""
        return self.token_facts(recipe)

    def check_model(self, model: Module, datasets: Mapping[str, Any], recipe: Recipe) -> None:
        if isinstance(model, Deployed):
            return
        if not isinstance(model, ReadingModel):
            raise ConfigError(f"model: {type(model).__name__} is no pdl_nlp.ReadingModel, so it finds no answers")
        self.check_reader(model, recipe)

    def loader(self, dataset: Any, recipe: Recipe, *, training: bool, seed: int) -> Iterable[Any]:
        """Batches of windows by length; see `pdl_nlp.span_extraction.loader`."""
        windows = Windows(dataset, self.tokenizer, self.reading(together=self.together), training=training)
        return loader_of(windows, recipe.data, training=training, seed=seed)

    def learned_config(self) -> dict[str, Any]:
        return {"tokenizer": self.kind, "scoring": self.scoring, "unanswerable": self.unanswerable}

    # -- data ----------------------------------------------------------------------------------------------------------
    def baselines(self, recipe: Recipe, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
        """The most similar sentence, and what stands beside the longest piece that question and paragraph share."""
        return baselines(self, datasets, split)

    def check(self, recipe: Recipe, progress: Any = None) -> list[Fault]:
        return check(self, recipe, progress)

    def data_at(self, path: Path, split: str) -> dict[str, Any]:
        """A file of SQuAD's form."""
        return {"_target_": "pdl_nlp.data.QuestionFile", "path": str(path)}

    # -- what a task hands over ----------------------------------------------------------------------------------------
    def deployer(self, recipe: Recipe) -> SpanExtractionDeployer:
        return SpanExtractionDeployer(self, recipe)

    def reporter(self) -> SpanExtractionReporter:
        return SpanExtractionReporter(self)

    def smoke_test(self, recipe: Recipe) -> SmokeTest:
        small = small_encoder(recipe) or {"model.dim": 24, "model.hidden": 24}
        return SmokeTest(settings={"task.min_count": 1, **small, "optim.lr": 5e-3})
