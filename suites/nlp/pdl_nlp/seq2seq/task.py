"""The task: write a text for one that is read, such as its translation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np

import pdl
from pdl.data import Fault
from pdl.errors import ConfigError, DataError
from pdl.export.decoder import Eager
from pdl.hints import Range
from pdl.nn import Module
from pdl.runtime.decoding import Options, search
from pdl.train import Evaluation, Loss, Metric, Recipe, Task
from pdl.train.assembly import Parts
from pdl.train.classical import spread
from pdl.train.deployed import Deployed
from pdl.train.parts import SmokeTest
from pdl_nlp.fitting import KINDS, WithTokenizer, small_encoder
from pdl_nlp.loader import loader_of
from pdl_nlp.models.base import Seq2SeqModel
from pdl_nlp.seq2seq.baselines import baselines
from pdl_nlp.seq2seq.check import check
from pdl_nlp.seq2seq.deploy import Seq2SeqDeployer
from pdl_nlp.seq2seq.loader import Noise, Translations, both, marks
from pdl_nlp.seq2seq.metrics import Written, seq2seq_metrics
from pdl_nlp.seq2seq.report import Seq2SeqReporter
from pdl_nlp.span_extraction.metrics import mostly_chinese
from pdl_nlp.tokenizers import BERT
from pdl_nlp.tokenizers.bpe import ByteLevelBPE
from pdl_nlp.tokenizers.training import KINDS as TRAINED
from pdl_nlp.tokenizers.training import train as train_tokenizer
from pdl_nlp.written import Tokens

HISTORY = 4  # texts whose translations are kept of every evaluation


class Seq2Seq(WithTokenizer, Task):
    """A text is written for one that is read: translation and whatever else has pairs of texts. Training minimises the
    cross-entropy of each token given those before it, with label smoothing (Szegedy et al., arXiv 1512.00567; as
    Vaswani et al., arXiv 1706.03762); the loss of evaluations is without it, so that perplexity is exp of it.

    label_smoothing  share of the probability that is spread evenly over all tokens
    noise            in training, the share of the tokens before the one to be told that are replaced by others (Xiao et
                     al., arXiv 2001.11314): of ERNIE-GEN, and of any net
    tokenizer        what is made of both texts of the training data together: "bpe" (of bytes), "unigram" or
                     "sentencepiece_bpe" (by the library), "wordpiece", "words", "characters"; or one that is there, as
                     in `pdl_nlp.TextClassification`
    bpe_dropout      in training, the share of a "bpe" tokenizer's merges that is left out, others each epoch, so that
                     words are also learned by their parts (Provilkov et al., arXiv 1910.13267)
    vocabulary_size  the most tokens, special ones among them
    lower            whether texts are lowered first
    min_count        of the data of a tokenizer: what occurs less often becomes no token
    max_length       tokens of a text that count, from its beginning, with that for its end; and of what is written
    beams            hypotheses that are followed when a text is written; in training val is written greedily
    length_penalty   a hypothesis of n tokens is ranked by its log-probability / n to this power
    scoring          what BLEU counts: "13a", "zh", "char" or "none" (`pdl_nlp.written`); by default "zh" where most
                     letters of the training targets are Chinese, else "13a"
    shown            how many samples the report shows
    """

    monitor = "val/bleu"
    monitor_mode = "max"

    def __init__(
        self,
        *,
        label_smoothing: Annotated[float, Range(0, below=1)] = 0.1,
        noise: Annotated[float, Range(0, below=1)] = 0.0,
        tokenizer: str | Mapping[str, Any] | None = None,
        bpe_dropout: Annotated[float, Range(0, below=1)] = 0.0,
        vocabulary_size: Annotated[int, Range(6)] | None = 8000,
        lower: bool = False,
        min_count: Annotated[int, Range(1)] = 2,
        max_length: Annotated[int, Range(2)] = 128,
        beams: Annotated[int, Range(1, 256)] = 5,
        length_penalty: Annotated[float, Range(-10, 10)] = 1.0,
        scoring: Tokens | None = None,
        shown: Annotated[int, Range(0)] = 12,
    ) -> None:
        self.label_smoothing, self.noise, self.max_length = label_smoothing, noise, max_length
        self.bpe_dropout = bpe_dropout
        self.kind, self.lower, self.min_count, self.vocabulary_size = tokenizer, lower, min_count, vocabulary_size
        self.beams, self.length_penalty, self.scoring, self.shown = beams, length_penalty, scoring, shown
        self.net: Any = None
        self.quick: Any = None  # a data set whose texts are written greedily
        self.history: list[tuple[int, list[Written]]] = []

    # -- training ------------------------------------------------------------------------------------------------------
    def step(self, model: Any, batch: Any) -> Loss:
        tokens, given, labels = (pdl.as_tensor(batch[name]) for name in ("tokens", "given", "labels"))
        count = pdl.astype(labels >= 0, pdl.float32).sum()
        return Loss(model.loss(tokens, given, labels, label_smoothing=self.label_smoothing), count)

    def evaluate(self, model: Any, batch: Any) -> Loss:
        of, texts = batch["tokens"], (batch["text"], batch["target"], batch["index"])
        if isinstance(model, Deployed):
            found = [self.text(row[row >= 0]) for row in model(of)[0].numpy()[:, 0]]
            return Loss(pdl.zeros(()), len(of), (0.0, 0, found, *texts), known=False)
        tokens, given, labels = (pdl.as_tensor(batch[name]) for name in ("tokens", "given", "labels"))
        count, loss = int((batch["labels"] >= 0).sum()), model.loss(tokens, given, labels)
        return Loss(loss, count, (float(loss.item()), count, self.written(model, of, int(batch["beams"][0])), *texts))

    def options(self, beams: int) -> Options:
        """How texts are written."""
        banned = self.tokenizer.silent(ends=[marks(self.tokenizer)[1]])
        return Options(max_length=self.max_length, beams=beams, length_penalty=self.length_penalty, banned=banned)

    def written(self, model: Any, tokens: np.ndarray, beams: int) -> list[str]:
        """What a net writes for texts int64 [N, S]; greedily, as after each epoch, at most twice as many tokens, and 20
        more."""
        begin, end, _ = marks(self.tokenizer)
        longest = min(self.max_length, 2 * tokens.shape[1] + 20) if beams == 1 else self.max_length
        options = self.options(beams).but(max_length=longest)
        found = search(Eager(model), [tokens], [[begin]] * len(tokens), options, ends=[end])
        return [self.text(answers[0].tokens) for answers in found]

    def text(self, tokens: Sequence[int]) -> str:
        """The text of tokens."""
        return self.tokenizer.decode(tokens).strip()

    def metrics(self) -> dict[str, Metric]:
        return seq2seq_metrics(self.scoring or "13a")

    def calibrate(self, evaluation: Evaluation) -> Mapping[str, Any]:
        """Nothing is chosen; some of what was written in training is kept for the report."""
        found: list[Written] = evaluation.details["written"]
        rows = spread(len(found), HISTORY).tolist()
        self.history.append((len(self.history) + 1, [found[row] for row in rows]))
        return {}

    # -- building ------------------------------------------------------------------------------------------------------
    def prepare(self, recipe: Recipe, datasets: Mapping[str, Any]) -> None:
        """Make the tokens of the training texts, or read the tokenizer."""
        train = datasets.get("train")
        if train is None:
            if "tokens" not in self.vocabularies:
                raise DataError("data.train is needed to know the tokens; give it, or use the run that was trained")
            return
        if "tokens" not in self.vocabularies:
            self._fit([text for column in both(train) for text in column], recipe)
        if self.scoring is None:
            self.scoring = "zh" if mostly_chinese(both(train)[1]) else "13a"
        marks(self.tokenizer)

    def _fit(self, texts: list[str], recipe: Recipe) -> None:
        self.kind = self.asked(None, tuple(TRAINED))
        kind = "bpe" if self.kind is None else self.kind
        if kind in KINDS or kind not in TRAINED:
            self.fit_tokenizer(recipe, texts, special=BERT)
            return
        size = self.vocabulary_size or 30000
        made = train_tokenizer(kind, texts, size=size, least=self.min_count, lower=self.lower)
        self.kind, vocabularies, arrays = made.state()
        self.vocabularies |= vocabularies
        self.constants |= {f"tokens.{name}": array for name, array in arrays.items()}

    def facts(self, recipe: Recipe) -> Mapping[str, Any]:
        """The size of the vocabulary and the number of the padding."""
        return self.token_facts(recipe)

    def check_model(self, model: Module, datasets: Mapping[str, Any], recipe: Recipe) -> None:
        if isinstance(model, Deployed):
            return
        if not isinstance(model, Seq2SeqModel):
            raise ConfigError(f"model: {type(model).__name__} is no pdl_nlp.Seq2SeqModel, so it writes no text")
        self.check_reader(model, recipe)

    def loader(self, dataset: Any, recipe: Recipe, *, training: bool, seed: int) -> Iterable[Any]:
        """Batches of pairs by length; see `pdl_nlp.seq2seq.loader`."""
        if self.bpe_dropout and not (isinstance(self.tokenizer, ByteLevelBPE) and self.tokenizer.normal is None):
            kind = self.tokenizer.kind + (", with texts normalised" if isinstance(self.tokenizer, ByteLevelBPE) else "")
            share = f"task.bpe_dropout={self.bpe_dropout:g}"
            raise ConfigError(f"{share} needs task.tokenizer=bpe, whose merges are left out; this one is {kind}")
        dropout, beams = (self.bpe_dropout, 0) if training else (0.0, self.beams)
        pairs = Translations(dataset, self.tokenizer, self.max_length, beams=beams, dropout=dropout, seed=seed)
        ordinary = np.setdiff1d(np.arange(len(self.tokenizer.tokens)), self.tokenizer.silent())
        noise = [Noise(self.noise, ordinary)] if training and self.noise else []
        return loader_of(pairs, recipe.data, training=training, seed=seed, transforms=noise)

    def learned_config(self) -> dict[str, Any]:
        return {"tokenizer": self.kind, "scoring": self.scoring}

    def assembled(self, parts: Parts, recipe: Recipe, *, training: bool) -> None:
        """Keep the model, of which the report shows attention. In training the validation data, which is often
        measured, is written greedily."""
        self.net = None if isinstance(parts.model, Deployed) else parts.model
        val: Any = parts.loaders.get("val")
        if training and val is not None and isinstance(val.dataset, Translations):
            val.dataset.beams = 1

    # -- data ----------------------------------------------------------------------------------------------------------
    def baselines(self, recipe: Recipe, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
        """The text as it is, and what was written for the most similar one of training."""
        return baselines(self, datasets, split)

    def check(self, recipe: Recipe, progress: Any = None) -> list[Fault]:
        return check(self, recipe, progress)

    def data_at(self, path: Path, split: str) -> dict[str, Any]:
        """A table with the columns text and target."""
        return {"_target_": "pdl_nlp.data.ParallelText", "path": str(path)}

    # -- what a task hands over ----------------------------------------------------------------------------------------
    def deployer(self, recipe: Recipe) -> Seq2SeqDeployer:
        return Seq2SeqDeployer(self, recipe)

    def reporter(self) -> Seq2SeqReporter:
        return Seq2SeqReporter(self)

    def smoke_test(self, recipe: Recipe) -> SmokeTest:
        small = small_encoder(recipe) or {"model.dim": 24, "model.hidden": 24}
        small.pop("model.pretrained", None)
        own = {"task.min_count": 1, "task.vocabulary_size": 400, "task.max_length": 24, "optim.lr": 5e-3}
        return SmokeTest(settings={**own, **small})
