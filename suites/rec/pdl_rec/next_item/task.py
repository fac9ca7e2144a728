"""The task: which item comes next in a session."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np

import pdl
from pdl import nn
from pdl.data import Fault
from pdl.errors import ConfigError, DataError
from pdl.hints import Range
from pdl.nn import Module
from pdl.train import Loss, Metric, Recipe, Task
from pdl.train.deployed import Deployed
from pdl.train.recipe import Data
from pdl.vocabulary import Vocabulary
from pdl_rec.data.check import check_recipe
from pdl_rec.data.sessions import Sessions, bind, sessions_of, unwrap, vocabulary_of
from pdl_rec.metrics import Ranking
from pdl_rec.models.base import SequenceModel
from pdl_rec.next_item.baselines import baselines
from pdl_rec.next_item.deploy import NextItemDeployer
from pdl_rec.next_item.loader import Order, Prefixes, SessionParallel, Stretches, WithNegatives, loader_of, sizes_up_to
from pdl_rec.next_item.losses import CrossEntropy, ItemLoss
from pdl_rec.next_item.metrics import Places
from pdl_rec.next_item.report import NextItemReporter

Batches = Literal["pairs", "sequences", "session_parallel"]


class NextItem(Task):
    """Which item comes next in a session, out of all items.

    batches     what a step of training sees: "pairs", the items before and the one that came next, for every item but
                the first of each session; "sequences", whole sessions, all of whose steps are learned at once;
                "session_parallel", one item of each of `data.batch_size` sessions side by side, the model's state
                carried from step to step (GRU4Rec)
    loss        CrossEntropy (over all items, or sampled), BPRMax or TOP1Max
    order       of sessions in session-parallel training: "random", or "time", by when they begin
    max_length  the newest items of a session that are read, in evaluation and prediction too; in training longer
                sessions are cut ("pairs", "sequences") or read whole ("session_parallel")
    min_count   items that occur less often in the training data are unknown
    cutoffs     recall@k, mrr@k and ndcg@k are measured for these k
    compare     the baselines (`pdl_rec.baselines.BASELINES`) that are measured beside the model; by default all
    self_recommendation  whether items that a session has already may be recommended to it

    Evaluation is a full ranking: every target competes with all items of the vocabulary. A prediction is made for each
    target of a session (all items but its first, where the data set does not say which) from the items before it.
    """

    monitor = "val/recall@20"
    monitor_mode = "max"

    def __init__(
        self,
        *,
        batches: Batches = "pairs",
        loss: ItemLoss | None = None,
        order: Order = "random",
        max_length: Annotated[int, Range(1)] = 50,
        min_count: Annotated[int, Range(1)] = 1,
        cutoffs: Sequence[Annotated[int, Range(1)]] = (5, 10, 20),
        self_recommendation: bool = True,
        compare: Sequence[str] | None = None,
    ) -> None:
        self.loss = CrossEntropy() if loss is None else loss
        if not isinstance(self.loss, ItemLoss):
            raise ConfigError(f"loss is a {type(self.loss).__name__}; use pdl_rec.CrossEntropy, BPRMax or TOP1Max")
        self.batches, self.order, self.max_length, self.min_count = batches, order, max_length, min_count
        self.cutoffs, self.self_recommendation = tuple(cutoffs), self_recommendation
        self.compare = None if compare is None else tuple(compare)
        self.item_fields: dict[str, np.ndarray] = {}

    # -- training ------------------------------------------------------------------------------------------------------
    def step(self, model: Module, batch: Any) -> Loss:
        assert isinstance(model, SequenceModel)
        sampled = pdl.as_tensor(batch["negatives"]) if "negatives" in batch else None
        targets = pdl.as_tensor(batch["target" if self.batches == "pairs" else "targets"])
        sessions = self.read(model, batch)
        if self.batches == "sequences":
            targets = pdl.reshape(targets, (-1,))
            sessions = pdl.reshape(sessions, (targets.shape[0], -1))
        value = self.loss(model, sessions, targets, sampled)
        known = pdl.sum(pdl.astype(pdl.not_equal(targets, 0), value.dtype))
        if self.batches == "session_parallel":
            value = weighed(value, pdl.as_tensor(batch["filled"]))
        return Loss(value, known.detach())

    def read(self, model: SequenceModel, batch: Any) -> pdl.Tensor:
        """The sessions of a training batch as vectors [..., C]."""
        items = pdl.as_tensor(batch["items"])
        if self.batches == "session_parallel":
            places = pdl.as_tensor(batch["places"]) if "places" in batch else None
            return model.advance(items, pdl.as_tensor(batch["reset"]), places)
        return model.encode(items) if self.batches == "pairs" else model.encode_steps(items)

    def table_rows(self, model: Module, batch: Any) -> dict[str, np.ndarray]:
        """The items that are read, came next or are candidates, of every table of items."""
        names = ("items", "target", "targets", "negatives")
        items = np.concatenate([np.asarray(batch[name]).reshape(-1) for name in names if name in batch])
        rows = len(self.vocabularies["items"]) + 1
        return {name: items for name, p in model.named_parameters() if isinstance(p, nn.Table) and p.shape[0] == rows}

    def evaluate(self, model: Module, batch: Any) -> Loss:
        """The full cross-entropy, whatever the training loss; outputs are the scores [N, n + 1] and targets [N]."""
        items, target = batch["items"], batch["target"]
        scores = model(pdl.as_tensor(items))
        known = int((target > 0).sum())  # where there is none, the loss is over nothing
        targets = pdl.Tensor(target - 1)
        value = pdl.cross_entropy(scores[:, 1:], targets, ignore_index=-1) if known else pdl.Tensor(np.float32(0.0))
        return Loss(value, known, (scores, target))

    def metrics(self) -> dict[str, Metric]:
        ranking = self.ranking()
        return {**ranking.metrics(), "places": Places(ranking)}

    def ranking(self) -> Ranking:
        """A fresh measure of rankings, with the task's protocol."""
        return Ranking(self.cutoffs, self_recommendation=self.self_recommendation)

    def update_metrics(self, metrics: dict[str, Metric], loss: Loss, batch: Any) -> None:
        for name, metric in metrics.items():
            metric.update(*loss.outputs, batch["items"], *((batch["index"],) if name == "places" else ()))

    def protocol(self) -> str:
        """How the metrics are measured, in words."""
        read = f"sessions are read up to their {self.max_length} newest items"
        missed = "targets that training does not have are misses"
        return self.ranking().protocol(len(self.vocabularies["items"]), read, missed)

    # -- building ------------------------------------------------------------------------------------------------------
    def prepare(self, recipe: Recipe, datasets: Mapping[str, Any]) -> None:
        """Number the items of the training data, and those of all splits by them; count them for sampling."""
        if "items" not in self.vocabularies:
            if "train" not in datasets:
                raise DataError("data.train is needed to know the items; give it, or use the run that was trained")
            self.vocabularies["items"] = vocabulary_of(datasets["train"], min_count=self.min_count)
        for field in names_of_fields(datasets.get("train")):
            if field not in self.vocabularies:
                self.vocabularies[field] = vocabulary_of(datasets["train"], field)
        for split, dataset in datasets.items():
            bind(dataset, self.vocabularies)
            self.item_fields = getattr(unwrap(dataset)[0], "item_fields", self.item_fields)
            if len(sessions_of(dataset).targets()[0]) == 0:
                raise DataError(
                    f"data.{split}: no session has two items of the vocabulary, so nothing is to be predicted"
                )
        if "train" in datasets:
            held = sessions_of(datasets["train"]).items
            self.loss.prepare(np.bincount(held, minlength=len(self.vocabularies["items"]) + 1))

    def facts(self, recipe: Recipe) -> dict[str, Any]:
        """`num_items`, and for models that have them `slots`, `sparse` and `fields`."""
        found: dict[str, Any] = {"num_items": len(self.vocabularies["items"])}
        if self.batches == "session_parallel":
            found["slots"] = recipe.data.batch_size
        found["sparse"] = self.loss.negatives is not None
        if self.item_fields:
            found["fields"] = kinds(self.item_fields, self.vocabularies)
        return found

    def model(self, recipe: Recipe) -> Module:
        made = super().model(recipe)
        if self.item_fields and hasattr(made, "describe"):
            made.describe(self.item_fields)
        return made

    def check_model(self, model: Module, datasets: Mapping[str, Any], recipe: Recipe) -> None:
        name = type(model).__name__
        if isinstance(model, Deployed):  # a bundle, measured as it is deployed
            return
        if not isinstance(model, SequenceModel):
            raise ConfigError(f"model: {name} is no pdl_rec.SequenceModel, so it reads no sessions")
        if self.batches == "session_parallel" and type(model).advance is SequenceModel.advance:
            raise ConfigError(f"task.batches: {name} carries no state from step to step; use pairs or sequences")
        if self.batches == "sequences" and type(model).encode_steps is SequenceModel.encode_steps:
            raise ConfigError(f"task.batches: {name} reads whole sessions only; use pairs")

    def loader(self, dataset: Any, recipe: Recipe, *, training: bool, seed: int) -> Iterable[Any]:
        """Batches of a data set; see `pdl_rec.next_item.loader`."""
        sessions = sessions_of(dataset)
        if not training:
            return loader_of(Prefixes(sessions, self.max_length), recipe.data, training=False, seed=seed)
        made = self._training_loader(sessions, recipe.data, seed)
        if not self.loss.negatives:
            return made
        return WithNegatives(made, self.loss.draws(seed), self.loss.negatives)

    def _training_loader(self, sessions: Sessions, data: Data, seed: int) -> Any:
        if self.batches == "session_parallel":
            return SessionParallel(sessions, data.batch_size, order=self.order, seed=seed)
        sizes = sizes_up_to(self.max_length)
        if self.batches == "pairs":
            stretches: Any = Prefixes(sessions, self.max_length, sizes=sizes, unknown=False)
        else:
            stretches = Stretches(sessions, self.max_length, sizes=sizes)
        return loader_of(stretches, data, training=True, seed=seed)

    def check(self, recipe: Recipe, progress: Any = None) -> list[Fault]:
        return check_recipe(recipe, progress)

    def baselines(self, recipe: Recipe, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
        return baselines(self, datasets, split)

    # -- what a task hands over ----------------------------------------------------------------------------------------
    def deployer(self, recipe: Recipe) -> NextItemDeployer:
        return NextItemDeployer(self, recipe)

    def reporter(self) -> NextItemReporter:
        return NextItemReporter(self)


def names_of_fields(dataset: Any) -> list[str]:
    """The fields of items that a data set of sessions has and whose values are names."""
    fields = {} if dataset is None else getattr(unwrap(dataset)[0], "fields", {})
    return [name for name, one in fields.items() if one.names is not None]


def kinds(fields: Mapping[str, np.ndarray], vocabularies: Mapping[str, Vocabulary]) -> dict[str, list[int]]:
    """{name: [names, places]} of fields [num_items + 1, places]; 0 names where the values are numbers."""
    return {
        name: [len(vocabularies[name]) if name in vocabularies else 0, values.shape[1]]
        for name, values in fields.items()
    }


def weighed(value: pdl.Tensor, share: pdl.Tensor) -> pdl.Tensor:
    """`value`, whose gradient is `share` times its own: a step with a few sessions left moves the weights less."""
    return value * share + value.detach() * (1.0 - share)
