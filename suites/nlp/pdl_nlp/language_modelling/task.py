"""The task: every token of a text from those before it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np

import pdl
from pdl.data import DataLoader, Fault
from pdl.dtype import Array
from pdl.errors import ConfigError, DataError
from pdl.export.decoder import Eager
from pdl.hints import Range
from pdl.nn import Module
from pdl.runtime.decoding import Options, search
from pdl.train import Evaluation, Loss, Metric, Recipe, Task
from pdl.train.deployed import Deployed
from pdl.train.parts import SmokeTest
from pdl_nlp import checkpoints
from pdl_nlp.fitting import WithTokenizer, check_length, pretrained_sizes
from pdl_nlp.language_modelling.baselines import baselines
from pdl_nlp.language_modelling.check import check
from pdl_nlp.language_modelling.deploy import WRITTEN, LanguageModelDeployer
from pdl_nlp.language_modelling.loader import Windows, numbered, texts_of
from pdl_nlp.language_modelling.metrics import BitsPerCharacter, CharacterPerplexity, Perplexity
from pdl_nlp.language_modelling.report import BEGINNING, LanguageModelReporter
from pdl_nlp.models.gpt import LanguageDecoder
from pdl_nlp.tokenizers import BERT, Characters, read
from pdl_nlp.tokenizers.training import train as train_tokenizer

SPECIAL = {part: BERT[part] for part in ("pad", "unknown", "sep")}
FITTED = ("characters", "bpe")
HISTORY = 8  # samples of training that are kept
ENDS = ("<|endoftext|>", "<|end_of_text|>", "</s>", "<eos>", "[SEP]")


class LanguageModel(WithTokenizer, Task):
    """Every token of a text is predicted from those before it, by the cross-entropy; what is learned writes texts
    (Radford et al., "Language models are unsupervised multitask learners", 2019). Data are whole texts (`Corpus`), or
    any data of texts. The test asks for each token but the first.

    tokenizer        "characters" (white space, too; the default), "bpe" (byte-level, of the training texts, with
                     `vocabulary_size` tokens), the path of a tokenizer's file or folder; None with a pretrained model:
                     its own. Tokenizers that lose white space are refused
    lower            whether texts are lowered first; like the next two of tokenizers made here
    min_count        characters that occur less often in training are unknown
    vocabulary_size  the most tokens, special ones among them; of "bpe" 4096 by default
    end              the token between two texts; by default the tokenizer's own for that, as far as it has one
    max_length       tokens of a window
    stride           tokens between the begins of two windows of the test; by default max_length, so that windows do not
                     overlap. Fewer give every token at least max_length - stride tokens before it
    """

    monitor = "val/loss"
    monitor_mode = "min"
    overfits = ""  # it learns of windows of texts, drawn anew for every epoch

    def __init__(
        self,
        *,
        tokenizer: str | Mapping[str, Any] | None = None,
        lower: bool = False,
        min_count: Annotated[int, Range(1)] = 1,
        vocabulary_size: Annotated[int, Range(8)] | None = None,
        end: str | None = None,
        max_length: Annotated[int, Range(2)] = 128,
        stride: Annotated[int, Range(1)] | None = None,
    ) -> None:
        if stride is not None and stride > max_length:
            raise ConfigError(f"task.stride={stride} leaves tokens out of windows of max_length={max_length}; lower it")
        self.kind, self.lower, self.min_count, self.vocabulary_size = tokenizer, lower, min_count, vocabulary_size
        self.ending, self.max_length, self.stride = end, max_length, stride
        self.net: Any = None  # what was evaluated last: it shows what it writes
        self.history: list[tuple[int, float, str]] = []  # (evaluation, loss, text), fewer and fewer
        self._evaluations, self._every, self._deployed = 0, 1, False
        self._shown: Array | None = None  # what these begin with
        self._numbered: dict[int, tuple[Any, tuple[Array, int]]] = {}

    # -- training ------------------------------------------------------------------------------------------------------
    def step(self, model: Any, batch: Any) -> Loss:
        tokens, targets = pdl.as_tensor(batch["tokens"]), pdl.as_tensor(batch["targets"])
        count = pdl.astype(targets >= 0, pdl.float32).sum()
        return Loss(model.loss(tokens, targets), count)

    def evaluate(self, model: Any, batch: Any) -> Loss:
        if isinstance(model, Deployed):
            return Loss(pdl.zeros(()), len(batch["tokens"]), known=False)
        self.net = model
        tokens, targets = pdl.as_tensor(batch["tokens"]), pdl.as_tensor(batch["targets"])
        losses = model.loss(tokens, targets, reduction="none").sum(axis=1)
        counts = (np.asarray(batch["targets"]) >= 0).sum(axis=1)
        total = max(int(counts.sum()), 1)
        return Loss(losses.sum() * (1 / total), total, (losses, counts, batch["characters"]))

    def calibrate(self, evaluation: Evaluation) -> Mapping[str, Any]:
        """Nothing; a good time to write a sample for the report."""
        self._evaluations += 1
        if (self._evaluations - 1) % self._every == 0 and self._shown is not None:
            text = self.write(self.net, [self._shown])[0]
            self.history.append((self._evaluations, evaluation.metrics["val/loss"], text))
            if len(self.history) > HISTORY:
                self.history, self._every = self.history[::2], 2 * self._every
        return {}

    @property
    def ends(self) -> tuple[int, ...]:
        """The tokens that end a text: one or none."""
        return () if self.end is None else (self.end,)

    def options(self, length: int) -> Options:
        """How texts of so many tokens are written."""
        banned = self.tokenizer.silent(self.ends)
        return Options(max_length=length, sample=True, temperature=0.8, top_p=0.95, banned=banned)

    def write(self, model: Any, begins: Sequence[Array], *, length: int = WRITTEN, seed: int = 0) -> list[str]:
        """How the model goes on with beginnings of texts, int [T] each: tokens drawn from their probabilities."""
        most = max(1, model.max_length // 2)
        prompts = [np.asarray(each)[-most:].tolist() for each in begins]
        options = self.options(min(length, most)).but(seed=seed)
        found = search(Eager(model), [], prompts, options, ends=self.ends)
        return [self.tokenizer.decode(answers[0].tokens) for answers in found]

    def metrics(self) -> dict[str, Metric]:
        """Bundles write, and say no probabilities of given texts."""
        if self._deployed:
            return {}
        return {
            "perplexity": Perplexity(),
            "character_perplexity": CharacterPerplexity(),
            "bits_per_character": BitsPerCharacter(),
        }

    # -- building ------------------------------------------------------------------------------------------------------
    def prepare(self, recipe: Recipe, datasets: Mapping[str, Any]) -> None:
        """Number the tokens of the training texts, or read the tokenizer."""
        train = datasets.get("train")
        if "tokens" not in self.vocabularies:
            begin = recipe.model.get("pretrained")
            if train is None and self.kind in (None, *FITTED) and begin is None:
                raise DataError("data.train is needed to know the tokens; give it, or use the run that was trained")
            self._fit(texts_of(train) if train is not None else (), begin)
        self.tokenizer  # noqa: B018  # what is wrong with it is said here

    def _fit(self, texts: Iterable[str], begin: str | None) -> None:
        made: Any
        self.kind = self.asked(begin, FITTED)
        if self.kind == "bpe":
            made = train_tokenizer("bpe", texts, size=self.vocabulary_size or 4096, least=2, lower=self.lower)
        elif self.kind == "characters" or (self.kind is None and begin is None):
            made = self._characters(texts)
        else:
            made = checkpoints.tokenizer(begin) if self.kind is None and begin is not None else read(str(self.kind))
        kind = made.kind
        if kind in ("words", "wordpiece") or (kind == "characters" and not made.spaces):
            raise ConfigError(f"task.tokenizer: {kind} loses white space, so no text can be written; use bpe")
        self.kind, vocabularies, arrays = made.state()
        self.vocabularies |= vocabularies
        self.constants |= {f"tokens.{name}": array for name, array in arrays.items()}

    def _characters(self, texts: Iterable[str]) -> Characters:
        """Characters of training, white space too, by their number in Unicode."""
        counts = Counter[str]()
        for text in texts:
            counts.update(text.lower() if self.lower else text)
        kept = [name for name, count in counts.most_common(self.vocabulary_size) if count >= self.min_count]
        return Characters([*SPECIAL.values(), *sorted(kept)], lower=self.lower, spaces=True, special=SPECIAL)

    @property
    def end(self) -> int | None:
        """The number of the token between two texts."""
        tokenizer = self.tokenizer
        if self.ending is not None:
            return tokenizer.number(self.ending)
        named = (name for name in ENDS if name in tokenizer.vocabulary)
        return tokenizer.sep if tokenizer.sep is not None else next(map(tokenizer.number, named), None)

    def facts(self, recipe: Recipe) -> Mapping[str, Any]:
        """The number of tokens; sizes of a pretrained model where the recipe leaves them out."""
        own = {"vocab_size": len(self.vocabularies["tokens"]), "max_length": self.max_length}
        return {**own, **pretrained_sizes(recipe)}

    def check_model(self, model: Module, datasets: Mapping[str, Any], recipe: Recipe) -> None:
        if isinstance(model, Deployed):
            self._deployed = True
            return
        if not isinstance(model, LanguageDecoder):
            raise ConfigError(f"model: {type(model).__name__} is no pdl_nlp.LanguageDecoder, such as pdl_nlp.GPT")
        own = len(self.vocabularies["tokens"])
        if model.vocab_size < own or (model.vocab_size > own and recipe.model.get("pretrained") is None):
            raise ConfigError(
                f"model.vocab_size={model.vocab_size}, but the data has {own}; correct it, or leave it out"
            )
        check_length(model, self.max_length)

    def loader(self, dataset: Any, recipe: Recipe, *, training: bool, seed: int) -> Iterable[Any]:
        """Windows of the texts; see `pdl_nlp.language_modelling.loader.Windows`."""
        ids, characters = self.numbers(dataset)
        if not training and self._shown is None:
            self._shown = ids[:BEGINNING]
        windows = Windows(ids, characters, self.max_length, training=training, stride=self.stride, seed=seed)
        data = recipe.data
        return DataLoader(
            windows, batch_size=data.size(training=training), shuffle=training, seed=seed, workers=data.workers,
            prefetch=data.prefetch, drop_last=training and data.drop_last,
        )  # fmt: skip

    def numbers(self, dataset: Any) -> tuple[Array, int]:
        """The tokens of a data set, and for how many characters they stand; made once."""
        held = self._numbered.get(id(dataset))
        if held is None or held[0] is not dataset:
            held = self._numbered[id(dataset)] = (dataset, numbered(texts_of(dataset), self.tokenizer, self.end))
        return held[1]

    def learned_config(self) -> dict[str, Any]:
        return {"tokenizer": self.kind}

    # -- data ----------------------------------------------------------------------------------------------------------
    def baselines(self, recipe: Recipe, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
        """Unigrams, and n-grams with Kneser and Ney's smoothing."""
        ids, characters = self.numbers(datasets[split])
        size = len(self.vocabularies["tokens"])
        return baselines(self.numbers(datasets["train"])[0], ids, size, characters / len(ids))

    def check(self, recipe: Recipe, progress: Any = None) -> list[Fault]:
        return check(self, recipe, progress)

    def data_at(self, path: Path, split: str) -> dict[str, Any]:
        """A file of text, or a folder of such."""
        return {"_target_": "pdl_nlp.data.Corpus", "path": str(path)}

    @property
    def vocabulary_note(self) -> str:
        """How many tokens of which kind, in words."""
        return f"{len(self.vocabularies['tokens']):,} tokens: {self.kind['kind']}"

    # -- what a task hands over ----------------------------------------------------------------------------------------
    def deployer(self, recipe: Recipe) -> LanguageModelDeployer:
        return LanguageModelDeployer(self, recipe)

    def reporter(self) -> LanguageModelReporter:
        return LanguageModelReporter(self)

    def smoke_test(self, recipe: Recipe) -> SmokeTest:
        small = {"dim": 32, "layers": 2, "heads": 2, "kv_heads": None, "hidden": 64, "pretrained": None}
        taken = {f"model.{name}": value for name, value in small.items() if name in recipe.model.takes}
        own: dict[str, Any] = {"task.tokenizer": "characters", "task.max_length": 32, "task.min_count": 1}
        for split, part in recipe.data.splits.items():
            if part.target.endswith("Corpus"):
                own[f"data.{split}.dataset.most"] = 12_000 if split == "train" else 2_000
        return SmokeTest(settings={**own, "task.stride": None, **taken, "optim.lr": 1e-2})
