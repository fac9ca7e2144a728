"""The task: masked tokens of packed texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import numpy as np

import pdl
from pdl.data import Fault
from pdl.dtype import Array
from pdl.errors import ConfigError, DataError
from pdl.hints import Range
from pdl.nn import Module
from pdl.train import Loss, Metric, Recipe, Task
from pdl.train.deployed import Deployed
from pdl.train.parts import SmokeTest
from pdl_nlp import checkpoints
from pdl_nlp.fitting import WithTokenizer, check_length, small_encoder
from pdl_nlp.models.bert import BERTForPretraining
from pdl_nlp.pretraining.baselines import most_frequent
from pdl_nlp.pretraining.check import check
from pdl_nlp.pretraining.deploy import MaskedLanguageModelDeployer
from pdl_nlp.pretraining.loader import Packing, loader_of, packed, texts_of
from pdl_nlp.pretraining.losses import divergence
from pdl_nlp.pretraining.masking import LEVELS, Kind, Level, Masking
from pdl_nlp.pretraining.metrics import MaskedAccuracy, Perplexity
from pdl_nlp.pretraining.units import Tagger, samples_of
from pdl_nlp.tokenizers import BERT


class MaskedLanguageModel(WithTokenizer, Task):
    """Masked tokens are found from what stands around them, by the cross-entropy at their positions (BERT: Devlin et
    al., arXiv 1810.04805); what is masked as a whole are tokens, words, or phrases and entities (ERNIE: Sun et al.,
    arXiv 1904.09223). Texts are packed into sequences of `max_length`. Data may be a stream, larger than memory.

    masking          "token", "word" (words of the tagger or of tagged text, else those of the tokenizer) or "ernie"
                     (each sequence draws a level: tokens, phrases, or entities and words; see
                     `pdl_nlp.pretraining.units`)
    levels           weights of the levels of "ernie": {basic: 1, phrase: 1, entity: 1}
    mask_share       of the tokens that are to be found
    tagger           a run, bundle or name of the hub that finds words with parts of speech in raw text; what it finds
                     is kept in the cache
    between          what stands between the words of tagged texts: "" in Chinese, " " in English
    teacher          a run or checkpoint with the same tokens that a smaller net is to answer like (Hinton et al., arXiv
                     1503.02531)
    distilled        the weight of that: the loss is (1 - w) times the cross-entropy of the tokens plus w T^2 times the
                     divergence sum p log(p / q) of the teacher's p from the net's q, both softmax(scores / T)
    temperature      T
    tokenizer        as in `pdl_nlp.TextClassification`, and so are the next three
    lower            whether texts are lowered first; like the next two of words and characters
    min_count        tokens that occur less often in training are unknown
    vocabulary_size  the most tokens, special ones among them
    max_length       tokens of a sequence
    """

    monitor = "val/loss"
    monitor_mode = "min"

    def __init__(
        self,
        *,
        masking: Kind = "token",
        levels: Mapping[Level, float] | None = None,
        mask_share: Annotated[float, Range(above=0, below=1)] = 0.15,
        tagger: str | None = None,
        between: str = "",
        teacher: str | None = None,
        distilled: Annotated[float, Range(0, 1)] = 0.5,
        temperature: Annotated[float, Range(above=0)] = 2.0,
        tokenizer: str | Mapping[str, Any] | None = None,
        lower: bool = True,
        min_count: Annotated[int, Range(1)] = 1,
        vocabulary_size: Annotated[int, Range(6)] | None = None,
        max_length: Annotated[int, Range(8)] = 128,
    ) -> None:
        self.masking, self.mask_share = masking, mask_share
        self.levels = {**dict.fromkeys(LEVELS, 0.0), **levels} if levels else dict(LEVELS)
        if set(self.levels) - set(LEVELS) or min(self.levels.values()) < 0 or not sum(self.levels.values()) > 0:
            raise ConfigError(f"task.levels={dict(levels or {})}: weights of {', '.join(LEVELS)}, some above 0")
        self.source, self.between = tagger, between
        self.master, self.distilled, self.temperature = teacher, distilled, temperature
        self.kind, self.lower, self.min_count, self.vocabulary_size = tokenizer, lower, min_count, vocabulary_size
        self.max_length, self.seed = max_length, 0

    # -- training ------------------------------------------------------------------------------------------------------
    def step(self, model: Any, batch: Any) -> Loss:
        tokens, positions, targets = (pdl.as_tensor(batch[name]) for name in ("tokens", "positions", "targets"))
        count = pdl.astype(targets >= 0, pdl.float32).sum()
        if self.master is None:
            return Loss(model.loss(tokens, positions, targets), count)
        scores = model(tokens, positions)
        kl = divergence(self.teacher(tokens, positions).detach(), scores, targets, self.temperature)
        value = pdl.cross_entropy(scores, targets, ignore_index=-1) * (1 - self.distilled) + kl * self.distilled
        return Loss(value, count, parts={"divergence": kl.detach()})

    def evaluate(self, model: Any, batch: Any) -> Loss:
        tokens, positions, targets = (pdl.as_tensor(batch[name]) for name in ("tokens", "positions", "targets"))
        scores = model(tokens, positions)
        losses = pdl.cross_entropy(scores, targets, ignore_index=-1, reduction="none")
        count = int((batch["targets"] >= 0).sum())
        found = pdl.argmax(scores, axis=-1)
        return Loss(losses.sum() * (1 / max(count, 1)), count, (found, losses, batch["targets"]))

    def metrics(self) -> dict[str, Metric]:
        return {"accuracy": MaskedAccuracy(), "perplexity": Perplexity()}

    # -- building ------------------------------------------------------------------------------------------------------
    def prepare(self, recipe: Recipe, datasets: Mapping[str, Any]) -> None:
        """Number the tokens of the training texts, or read the tokenizer."""
        train = datasets.get("train")
        if train is None and "tokens" not in self.vocabularies:
            raise DataError("data.train is needed to know the tokens; give it, or use the run that was trained")
        if train is not None:
            self.fit_tokenizer(recipe, self.texts(train), special=BERT)

    def texts(self, dataset: Any) -> Iterator[str]:
        """The texts of a data set or stream."""
        for sample in samples_of(dataset):
            if "tokens" in sample:
                yield self.between.join(sample["tokens"])
            else:
                yield from texts_of([sample])

    @cached_property
    def ordinary(self) -> Array:
        """bool [vocabulary]: which tokens are not special."""
        special = set(self.tokenizer.special.values())
        return np.array([token not in special for token in self.tokenizer.tokens])

    @cached_property
    def packing(self) -> Packing:
        """Who makes sequences of texts."""
        wanted = self.source is not None and self.masking != "token"
        tagger = Tagger(str(self.source)) if wanted else None
        return Packing(self.tokenizer, self.max_length, kind=self.masking, tagger=tagger, between=self.between)

    @cached_property
    def teacher(self) -> BERTForPretraining:
        """The net to answer like, in evaluation mode."""
        source = str(self.master)
        if list(checkpoints.tokenizer(source).tokens) != list(self.tokenizer.tokens):
            raise ConfigError(f"task.teacher={source}: it has other tokens; give task.tokenizer={source}'s vocabulary")
        found = BERTForPretraining(**checkpoints.sizes(source), pretrained=source).eval()
        for p in found.parameters():
            p.requires_grad = False
        return found

    @property
    def masks(self) -> Masking:
        """Who masks them."""
        mask = self.tokenizer.mask
        if mask is None:
            raise ConfigError("task.tokenizer: it has no token 'mask'; make one with `pdl vocab`, which has all")
        count = max(1, round(self.mask_share * self.max_length))
        return Masking(self.masking, self.mask_share, count, mask, self.ordinary, self.levels)

    def facts(self, recipe: Recipe) -> Mapping[str, Any]:
        """The size of the vocabulary; sizes of a pretrained encoder where the recipe leaves them out."""
        return self.token_facts(recipe)

    def check_model(self, model: Module, datasets: Mapping[str, Any], recipe: Recipe) -> None:
        if isinstance(model, Deployed):
            return
        if not isinstance(model, BERTForPretraining):
            raise ConfigError(f"model: {type(model).__name__} is no pdl_nlp.BERTForPretraining, so it finds no masks")
        self.check_reader(model, recipe)
        if self.master is not None:
            check_length(self.teacher, self.max_length)

    def loader(self, dataset: Any, recipe: Recipe, *, training: bool, seed: int) -> Iterable[Any]:
        """Batches of packed and masked sequences; see `pdl_nlp.pretraining.loader`."""
        self.seed = seed
        return loader_of(packed(dataset, self.packing), recipe.data, self.masks, training=training, seed=seed)

    def learned_config(self) -> dict[str, Any]:
        return {"tokenizer": self.kind}

    # -- data ----------------------------------------------------------------------------------------------------------
    def baselines(self, recipe: Recipe, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
        """The most frequent token."""
        batches = self.loader(datasets[split], recipe, training=False, seed=self.seed)
        counted = Packing(self.tokenizer, self.max_length, between=self.between)
        found = most_frequent(self, samples_of(packed(datasets["train"], counted)), batches)
        return {name: dict(metrics) for name, metrics in found.items()}

    def check(self, recipe: Recipe, progress: Any = None) -> list[Fault]:
        return check(self, recipe, progress)

    def data_at(self, path: Path, split: str) -> dict[str, Any]:
        """A file of texts, or a folder of such."""
        return {"_target_": "pdl_nlp.data.PlainText", "path": str(path)}

    # -- what a task hands over ----------------------------------------------------------------------------------------
    def deployer(self, recipe: Recipe) -> MaskedLanguageModelDeployer:
        return MaskedLanguageModelDeployer(self, recipe)

    def smoke_test(self, recipe: Recipe) -> SmokeTest:
        none = dict.fromkeys(("task.tagger", "task.teacher"))
        small = {"task.tokenizer": "characters", "task.min_count": 1, "task.max_length": 32, **none}
        source = recipe.data.source
        if self.masking == "ernie" and (source is None or not source.target.endswith("TaggedFile")):
            small["task.masking"] = "word"  # a self-test has no tagger
        settings = {**small, **small_encoder(recipe), "optim.lr": 5e-3, "train.max_steps": 60}
        return SmokeTest(settings=settings)
