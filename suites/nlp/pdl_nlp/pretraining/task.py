"""The task: masked tokens of packed texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

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
from pdl_nlp.pretraining.baselines import most_frequent, most_frequent_class
from pdl_nlp.pretraining.check import check
from pdl_nlp.pretraining.deploy import MaskedLanguageModelDeployer
from pdl_nlp.pretraining.loader import Packing, loader_of, packed, texts_of
from pdl_nlp.pretraining.losses import divergence
from pdl_nlp.pretraining.masking import LEVELS, Kind, Level, Masking
from pdl_nlp.pretraining.metrics import MaskedAccuracy, Perplexity
from pdl_nlp.pretraining.objectives import KINDS, Masks, Objective, pairs_of
from pdl_nlp.pretraining.schedule import Measured, Scheduled, stages_of
from pdl_nlp.pretraining.units import Tagger, samples_of
from pdl_nlp.tokenizers import BERT

Kinds: TypeAlias = Literal["masking", "reordering", "distance", "relation", "capitals", "relevance", "response"]


class MaskedLanguageModel(WithTokenizer, Task):
    """Masked tokens are found from what stands around them, by the cross-entropy at their positions (BERT: Devlin et
    al., arXiv 1810.04805); what is masked as a whole are tokens, words, or phrases and entities (ERNIE: Sun et al.,
    arXiv 1904.09223). Texts are packed into sequences of `max_length`. Data may be a stream, larger than memory.

    With `objectives` each batch is for one of them, whose own loss, the cross-entropy of its classes, is added to that
    of the tokens which are masked in it (ERNIE 2.0: Sun et al., arXiv 1907.12412; `pdl_nlp.pretraining.objectives`).

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
    objectives       masking (texts one behind another and nothing else), reordering, distance, relation, capitals,
                     relevance, response
    stages           which of them have batches, with which weights, for how many steps, one stage after another:
                     [{steps: 1000, weights: {masking: 1, distance: 2}}, ...]; the last one goes on. By default one for
                     each objective, equally long, in which it joins those before it
    epoch_steps      optimiser steps between evaluations, where there are objectives
    most_segments    of a passage that is reordered
    tokenizer        as in `pdl_nlp.TextClassification`, and so are the next three
    lower            whether texts are lowered first; like the next two of words and characters
    min_count        tokens that occur less often in training are unknown
    vocabulary_size  the most tokens, special ones among them
    max_length       tokens of a sequence
    """

    monitor = "val/loss"
    monitor_mode = "min"
    relevances = 0
    """Classes of the pairs that `relevance` reads."""
    deployed = False
    """Whether a bundle is measured, which finds masks alone."""

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
        objectives: Sequence[Kinds] | None = None,
        stages: Sequence[Mapping[str, Any]] | None = None,
        epoch_steps: Annotated[int, Range(1)] = 500,
        most_segments: Annotated[int, Range(2, 5)] = 3,
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
        self.names = tuple(dict.fromkeys(objectives or ()))
        if stages is not None and not self.names:
            raise ConfigError("task.stages: task.objectives names those that they have")
        if self.names and teacher is not None:
            raise ConfigError("task.teacher: a net that has objectives learns them alone; leave teacher or these out")
        self.stages, self.epoch_steps, self.most_segments = stages, epoch_steps, most_segments
        self.kind, self.lower, self.min_count, self.vocabulary_size = tokenizer, lower, min_count, vocabulary_size
        self.max_length, self.seed = max_length, 0

    # -- training ------------------------------------------------------------------------------------------------------
    def step(self, model: Any, batch: Any) -> Loss:
        tokens, positions, targets = (pdl.as_tensor(batch[name]) for name in ("tokens", "positions", "targets"))
        count = pdl.astype(targets >= 0, pdl.float32).sum()
        if (objective := self.objective_of(batch)) is not None:
            masked, logits = model.losses(tokens, positions, targets, segments_of(batch), objective)
            own = pdl.cross_entropy(logits, pdl.as_tensor(batch[objective]), ignore_index=-1)
            return Loss(masked + own, count, parts={"masking": masked.detach(), objective: own.detach()})
        if self.master is None:
            return Loss(model.loss(tokens, positions, targets), count)
        scores = model(tokens, positions)
        kl = divergence(self.teacher(tokens, positions).detach(), scores, targets, self.temperature)
        value = pdl.cross_entropy(scores, targets, ignore_index=-1) * (1 - self.distilled) + kl * self.distilled
        return Loss(value, count, parts={"divergence": kl.detach()})

    def evaluate(self, model: Any, batch: Any) -> Loss:
        tokens, positions, targets = (pdl.as_tensor(batch[name]) for name in ("tokens", "positions", "targets"))
        if (objective := self.objective_of(batch)) is not None:
            logits, classes = model.logits(tokens, segments_of(batch), objective), pdl.as_tensor(batch[objective])
            own = pdl.cross_entropy(logits, classes, ignore_index=-1)
            return Loss(own, len(batch["tokens"]), (pdl.argmax(logits, axis=-1), classes, classes))
        scores = model(tokens, positions)
        losses = pdl.cross_entropy(scores, targets, ignore_index=-1, reduction="none")
        count = int((batch["targets"] >= 0).sum())
        value, outputs = losses.sum() * (1 / max(count, 1)), (pdl.argmax(scores, axis=-1), losses, batch["targets"])
        if self.names:
            return Loss(value, len(batch["tokens"]), outputs, known=not self.deployed)
        return Loss(value, count, outputs)

    def objective_of(self, batch: Any) -> str | None:
        """The objective that a batch has classes for; None of masks alone."""
        return next((name for name in self.names if name in batch), None)

    def metrics(self) -> dict[str, Metric]:
        """Of masked tokens, where there are objectives in the batches for `masking`; and the share of right classes of
        each objective."""
        own = {f"{name}_accuracy": MaskedAccuracy() for name in self.names if name != Masks.name and not self.deployed}
        return {"accuracy": MaskedAccuracy(), "perplexity": Perplexity(), **own}

    def update_metrics(self, metrics: dict[str, Metric], loss: Loss, batch: Any) -> None:
        objective = self.objective_of(batch)
        if objective is None:
            for name in ("accuracy", "perplexity"):
                metrics[name].update(*loss.outputs)
        else:
            metrics[f"{objective}_accuracy"].update(*loss.outputs)

    # -- building ------------------------------------------------------------------------------------------------------
    def prepare(self, recipe: Recipe, datasets: Mapping[str, Any]) -> None:
        """Number the tokens of the training texts, or read the tokenizer."""
        train = datasets.get("train")
        if train is None and "tokens" not in self.vocabularies:
            raise DataError("data.train is needed to know the tokens; give it, or use the run that was trained")
        if train is not None:
            self.fit_tokenizer(recipe, self.texts(train), special=BERT)
        if "relevance" in self.names and train is not None:
            self.relevances = len(pairs_of(train).classes)

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

    @cached_property
    def objectives(self) -> dict[str, Objective]:
        """Those of the recipe, by name."""
        return self._objectives(self.packing)

    def _objectives(self, packing: Packing) -> dict[str, Objective]:
        own: dict[str, Any] = {"reordering": {"most": self.most_segments}, "relevance": {"classes": self.relevances}}
        return {name: KINDS[name](packing, **own.get(name, {})) for name in self.names}

    @property
    def masks(self) -> Masking:
        """Who masks them."""
        mask = self.tokenizer.mask
        if mask is None:
            raise ConfigError("task.tokenizer: it has no token 'mask'; make one with `pdl vocab`, which has all")
        count = max(1, round(self.mask_share * self.max_length))
        return Masking(self.masking, self.mask_share, count, mask, self.ordinary, self.levels)

    def facts(self, recipe: Recipe) -> Mapping[str, Any]:
        """The size of the vocabulary; sizes of a pretrained encoder where the recipe leaves them out; objectives and
        their classes."""
        made = self._objectives(Packing(self.tokenizer, self.max_length))  # no tagger is needed to know them
        asked = {name: each for name, each in made.items() if name != Masks.name}
        if not asked:
            return self.token_facts(recipe)
        tokenwise = [name for name, each in asked.items() if each.tokenwise]
        classes = {name: each.classes for name, each in asked.items()}
        return {**self.token_facts(recipe), "objectives": classes, "tokenwise": tokenwise, "tasks": len(asked) + 1}

    def check_model(self, model: Module, datasets: Mapping[str, Any], recipe: Recipe) -> None:
        if isinstance(model, Deployed):
            self.deployed = True
            return
        if not isinstance(model, BERTForPretraining):
            raise ConfigError(f"model: {type(model).__name__} is no pdl_nlp.BERTForPretraining, so it finds no masks")
        self.check_reader(model, recipe)
        if any(KINDS[name].paired for name in self.names) and model.embeddings.segments is None:
            raise ConfigError("model.segments=0: objectives of pairs and dialogues tell segments apart; give two")
        if self.master is not None:
            check_length(self.teacher, self.max_length)

    def loader(self, dataset: Any, recipe: Recipe, *, training: bool, seed: int) -> Iterable[Any]:
        """Batches of packed and masked sequences; see `pdl_nlp.pretraining.loader`."""
        self.seed = seed
        if self.names:
            return self._scheduled(dataset, recipe, training=training, seed=seed)
        return loader_of(packed(dataset, self.packing), recipe.data, self.masks, training=training, seed=seed)

    def _scheduled(self, dataset: Any, recipe: Recipe, *, training: bool, seed: int) -> Iterable[Any]:
        settings, size = recipe.settings, recipe.data.size(training=training)
        if not training:
            measured = {Masks.name: Masks(self.packing), **({} if self.deployed else self.objectives)}
            return Measured(dataset, measured, self.masks, size=size, seed=seed)
        stages = stages_of(self.stages, self.names, settings.max_steps)
        each = {"size": size, "epoch_steps": self.epoch_steps, "accumulate": settings.accumulate, "seed": seed}
        return Scheduled(dataset, self.objectives, self.masks, stages, **each)

    def learned_config(self) -> dict[str, Any]:
        return {"tokenizer": self.kind}

    # -- data ----------------------------------------------------------------------------------------------------------
    def baselines(self, recipe: Recipe, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
        """The most frequent token, and the most frequent class of each objective."""
        batches = self.loader(datasets[split], recipe, training=False, seed=self.seed)
        counted = Packing(self.tokenizer, self.max_length, between=self.between)
        found = most_frequent(self, samples_of(packed(datasets["train"], counted)), batches)
        if self.names:
            found = {**found, **most_frequent_class(self, datasets["train"], batches)}
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
        if self.names:  # one stage: the loss of the next one begins above that of this one
            one = [{"steps": 60, "weights": dict.fromkeys(self.names, 1)}]
            lengths = {"task.max_length": 48, "model.max_length": 48, "task.tokenizer": "words"}
            cut = [split for split, part in recipe.data.splits.items() if "ratios" in part]
            settings |= {f"data.{split}.ratios": {"train": 0.8, "val": 0.2} for split in cut}  # of few documents
            settings |= {"task.stages": one, "task.epoch_steps": 20, **lengths}
        return SmokeTest(settings=settings)


def segments_of(batch: Any) -> pdl.Tensor | None:
    """Those of a batch, or None where all tokens have one."""
    return pdl.as_tensor(batch["segments"]) if "segments" in batch else None
