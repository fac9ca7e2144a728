"""The task: which items of a catalogue fit a user."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np

import pdl
from pdl.data import Fault
from pdl.errors import ConfigError, DataError
from pdl.hints import Range
from pdl.nn import Module
from pdl.ranking import Lists
from pdl.train import Loss, Metric, Recipe, SmokeTest, Task
from pdl.train.deployed import Deployed
from pdl_rec.data.check import check_recipe
from pdl_rec.data.interactions import Interactions, interactions_of
from pdl_rec.data.sessions import bind, vocabulary_of
from pdl_rec.matching.deploy import MatchingDeployer, by_port
from pdl_rec.matching.loader import Before, Others, Pairs, Queries, Reading
from pdl_rec.matching.losses import Kind, all_items, matching_loss
from pdl_rec.models.matching import MatchingModel
from pdl_rec.steps.words import spelled, trigrams

if TYPE_CHECKING:
    from pdl_rec.metrics import Ranking


class Matching(Task):
    """Items for users, out of a whole catalogue, learned from who had what.

    loss          bpr, bce, hinge, warp or softmax (`pdl_rec.matching.losses`)
    negatives     what a positive item is compared with: "own", `num_negatives` for each example; "shared", so many
                  drawn for a batch; "in_batch", the items of the batch; "all", all items (softmax only). Items that the
                  user has in training are never among them
    alpha         negatives are sampled in proportion to count ** alpha (0: uniformly)
    logq          whether softmax is corrected by the log of each negative's sampling probability (logQ)
    margin        of hinge and warp
    l2            weight of the mean squared lengths of the vectors that took part (the BPR paper's lambda; two towers)
    history       newest items of a user that a model of histories reads
    history_of    in training: "others", all items of the user but the one to be found; "before", those before it
    user_fields   fields of users that the model reads
    item_fields   fields of items that the model reads
    trigrams      read the words of fields as letter trigrams, hashed into so many buckets (DSSM)
    repeat        whether items that the user had before may be recommended again
    cutoffs       recall@k, ndcg@k, mrr@k and hr@k are measured for these k

    Evaluation is of users, by full ranking: all items compete, but for those that the user had before (training; for
    the test also validation), as RecBole does it.
    """

    monitor = "val/recall@10"
    monitor_mode = "max"
    overfits = "training"

    def __init__(
        self,
        *,
        loss: Kind = "bpr",
        negatives: Others = "own",
        num_negatives: Annotated[int, Range(1)] = 1,
        alpha: Annotated[float, Range(0)] = 0.0,
        logq: bool = True,
        margin: Annotated[float, Range(0)] = 1.0,
        l2: Annotated[float, Range(0)] = 0.0,
        history: Annotated[int, Range(1)] = 100,
        history_of: Before = "others",
        user_fields: Sequence[str] = (),
        item_fields: Sequence[str] = (),
        trigrams: Annotated[int, Range(2)] | None = None,
        repeat: bool = False,
        cutoffs: Sequence[Annotated[int, Range(1)]] = (5, 10, 20),
    ) -> None:
        if negatives == "all" and loss != "softmax":
            raise ConfigError(f"task: negatives=all goes with loss=softmax, not {loss}; draw some for {loss}")
        self.loss, self.negatives, self.num_negatives, self.alpha, self.logq = (
            loss,
            negatives,
            num_negatives,
            alpha,
            logq,
        )
        self.margin, self.l2, self.history, self.history_of = margin, l2, history, history_of
        self.user_fields, self.item_fields, self.trigrams = tuple(user_fields), tuple(item_fields), trigrams
        self.repeat, self.cutoffs = repeat, tuple(cutoffs)
        self.inputs: tuple[str, ...] = ()
        self.widths: dict[str, int] = {}
        self.item_words: dict[str, np.ndarray] = {}
        self.user_words: dict[str, np.ndarray] = {}

    # -- training ------------------------------------------------------------------------------------------------------
    def step(self, model: Module, batch: Any) -> Loss:
        assert isinstance(model, MatchingModel)
        query, items = _tensors(batch["query"]), pdl.as_tensor(batch["item"])
        known = pdl.as_tensor(batch["known"]) if "known" in batch else None
        if self.negatives == "all":
            return Loss(all_items(model(query), items, known), len(batch["item"]))
        compared = model.compare(query, items, pdl.as_tensor(batch["others"]) if "others" in batch else None)
        value = matching_loss(
            self.loss,
            compared,
            known=known,
            log_draws=pdl.as_tensor(batch["log_draws"]) if "log_draws" in batch else None,
            margin=self.margin,
            num_items=model.num_items,
        )
        if self.l2 and compared.squares is not None:
            value = value + compared.squares * self.l2
        return Loss(value, len(batch["item"]))

    def evaluate(self, model: Module, batch: Any) -> Loss:
        """Scores [N, num_items + 1] of each user and the relevant items (`pdl.ranking.Lists`); the loss is the mean
        over users of the cross-entropy of a relevant item among all that are ranked. Batches of training have the loss
        of training, and nothing is ranked."""
        if "relevant" not in batch:
            return self.step(model, batch)
        scores = self.scores(model, batch["query"], batch["excluded"])
        relevant: Lists = batch["relevant"]
        each = _log_sum(scores) - _own_mean(scores, relevant)
        each = each[~np.isnan(each)]
        value = pdl.as_tensor(np.float32(each.mean() if len(each) else 0.0))
        return Loss(value, len(each), (scores, relevant))

    def scores(self, model: Module, query: Mapping[str, np.ndarray], excluded: Lists | None) -> np.ndarray:
        """float32 [N, num_items + 1]; -infinity for item 0 and for excluded items."""
        if isinstance(model, Deployed):
            made: pdl.Tensor = model(*by_port(model.session, query))
        else:
            made = model(_tensors(query))
        found: np.ndarray = made.data.copy()
        found[:, 0] = -np.inf
        if excluded is not None:
            found[np.repeat(np.arange(len(found)), excluded.lengths), excluded.values] = -np.inf
        return found

    def ranking(self) -> Ranking:
        """Accumulators by the protocol of the task."""
        from pdl_rec.metrics import Ranking

        return Ranking(self.cutoffs, names=("recall", "ndcg", "mrr", "hr"))

    def metrics(self) -> dict[str, Metric]:
        return self.ranking().metrics()

    def protocol(self) -> str:
        """How the metrics are measured, in words."""
        items, own = len(self.vocabularies["items"]), "may be recommended again" if self.repeat else "are not ranked"
        return (
            f"Means over users of a full ranking of {items:,} items; all that a user went on to have are relevant "
            f"(RecBole's recall, NDCG, MRR and HR); items that the user had before {own}; equal scores count against "
            "what is relevant; items that training does not have are missed."
        )

    def update_metrics(self, metrics: dict[str, Metric], loss: Loss, batch: Any) -> None:
        if loss.outputs:
            super().update_metrics(metrics, loss, batch)

    # -- building ------------------------------------------------------------------------------------------------------
    def prepare(self, recipe: Recipe, datasets: Mapping[str, Any]) -> None:
        """Number users, items and the words of fields as they are in the training data."""
        for kind in ("users", "items", *self.user_fields, *self.item_fields):
            if kind not in self.vocabularies:
                self.vocabularies[kind] = vocabulary_of(self._training_data(recipe, datasets, kind), kind)
        for split, dataset in datasets.items():
            bind(dataset, self.vocabularies)
            self.read_fields(split, interactions_of(dataset))

    def _training_data(self, recipe: Recipe, datasets: Mapping[str, Any], kind: str) -> Any:
        """Bundles hold names of users where these are asked for, and no words of items, so they are looked up where a
        bundle is measured."""
        in_bundles = kind != "users" and kind not in self.item_fields
        found = datasets if "train" in datasets or in_bundles else recipe.data.datasets(("train",))
        if "train" not in found:
            raise DataError(f"data.train is needed to know the {kind}; give it, or use a run that was trained")
        return found["train"]

    def read_fields(self, split: str, data: Interactions) -> None:
        """Features of users and items, as words or their trigrams."""
        for names, there, kept in (
            (self.user_fields, data.user_fields, self.user_words),
            (self.item_fields, data.item_fields, self.item_words),
        ):
            for name in names:
                if name not in there:
                    raise ConfigError(
                        f"data.{split} does not read the field {name!r}; name it in the data set's user_fields or "
                        "item_fields"
                    )
                kept.setdefault(name, self._words(name, there[name]))

    def _words(self, name: str, values: np.ndarray) -> np.ndarray:
        if values.dtype.kind == "f":
            raise ConfigError(f"task: the field {name!r} holds numbers; models of matching read words")
        if self.trigrams is None:
            return values
        return spelled(values, trigrams(self.vocabularies[name].names, self.trigrams))

    def _shapes(self, fields: Mapping[str, np.ndarray]) -> dict[str, list[int]]:
        rows = {name: self.trigrams or len(self.vocabularies[name]) + 1 for name in fields}
        return {name: [rows[name], values.shape[1]] for name, values in fields.items()}

    def facts(self, recipe: Recipe) -> dict[str, Any]:
        """Numbers of users and items, and the shapes of their fields."""
        return {
            "num_users": len(self.vocabularies["users"]),
            "num_items": len(self.vocabularies["items"]),
            "user_fields": self._shapes(self.user_words),
            "item_fields": self._shapes(self.item_words),
        }

    def model(self, recipe: Recipe) -> Module:
        """The model, with the words of items in it."""
        made = super().model(recipe)
        if hasattr(made, "fill") and self.item_words:
            made.fill(self.item_words)
        return made

    def check_model(self, model: Module, datasets: Mapping[str, Any], recipe: Recipe) -> None:
        name = type(model).__name__
        if isinstance(model, Deployed):  # a bundle in the model's place
            self.inputs = tuple(port.name for port in model.session.inputs)
            shapes = {port.name: port.shape for port in model.session.inputs if port.name in self.user_fields}
            self.widths = {name: int(shape[1]) for name, shape in shapes.items() if shape is not None}
            return
        if not isinstance(model, MatchingModel):
            raise ConfigError(f"model: {name} is no pdl_rec.MatchingModel, so it matches no users and items")
        for what, requested, read in (
            ("user_fields", self.user_fields, model.user_fields),
            ("item_fields", self.item_fields, model.item_fields),
        ):
            unread = [field for field in requested if field not in read]
            if unread:
                raise ConfigError(f"task.{what}: {name} does not read {', '.join(unread)}; leave it out")
        self.inputs = model.inputs
        self.widths = {field: shape[1] for field, shape in model.user_fields.items()}

    def reading(self, data: Interactions) -> Reading:
        """What queries of this data hold; its fields as wide as the model takes them."""
        fields = {}
        for name, width in self.widths.items():
            words = self._words(name, data.user_fields[name])[:, :width]
            fields[name] = np.pad(words, ((0, 0), (0, width - words.shape[1])))
        return Reading(self.inputs, fields, self.history)

    def loader(self, dataset: Any, recipe: Recipe, *, training: bool, seed: int) -> Iterable[Any]:
        """Pairs for training, shuffled anew in each epoch; otherwise users with all their relevant items."""
        found = interactions_of(dataset)
        users = max(len(self.vocabularies["users"]), int(found.users.max(initial=0)))  # of texts each split has its own
        items = len(self.vocabularies["items"])
        source: Any = self._pairs(found.seen(), users, items, seed) if training else None
        if source is None:
            source = Queries(found, self.reading(found), users, items, repeat=self.repeat, source=dataset)
        if not len(source):
            raise DataError(
                "no user of a split has an item of the vocabulary left to be found; check how data is split"
            )
        return super().loader(source, recipe, training=training, seed=seed)

    def _pairs(self, train: Interactions, users: int, items: int, seed: int) -> Pairs:
        return Pairs(
            train,
            self.reading(train),
            users,
            items,
            others=self.negatives,
            k=self.num_negatives,
            alpha=self.alpha,
            log_draws=self.loss == "softmax" and self.logq and self.negatives != "all",
            before=self.history_of,
            seed=seed,
        )

    def baselines(self, recipe: Recipe, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
        """Popularity and item-kNN, by the same protocol."""
        from pdl_rec.matching.baselines import baselines

        data, items = interactions_of(datasets[split]), len(self.vocabularies["items"])
        users = max(len(self.vocabularies["users"]), int(data.users.max(initial=0)))
        queries = Queries(data, Reading((), {}, self.history), users, items, repeat=self.repeat)
        known = split == "train" or data.known is not None  # else they are others than those of training
        return baselines(interactions_of(datasets["train"]).seen(), queries, items, self.ranking, known=known)

    def check(self, recipe: Recipe, progress: Any = None) -> list[Fault]:
        return check_recipe(recipe, progress)

    def smoke_test(self, recipe: Recipe) -> SmokeTest:
        return SmokeTest(train=2000, test=400, epochs=6, batch_size=200)

    # -- what a task hands over ----------------------------------------------------------------------------------------
    def deployer(self, recipe: Recipe) -> MatchingDeployer:
        return MatchingDeployer(self, recipe)


def _tensors(query: Mapping[str, Any]) -> dict[str, pdl.Tensor]:
    return {name: pdl.as_tensor(value) for name, value in query.items()}


def _log_sum(scores: np.ndarray) -> np.ndarray:
    """log of the sum of exp over each row: float64 [N]."""
    top = scores.max(axis=1, keepdims=True).astype(np.float64)
    total: np.ndarray = np.log(np.exp(scores - top).sum(axis=1)) + top[:, 0]
    return total


def _own_mean(scores: np.ndarray, lists: Lists) -> np.ndarray:
    """Mean of the scores of each row's list, unknown items (0) left out: float64 [N]; NaN where there are no others."""
    rows = np.repeat(np.arange(len(lists)), lists.lengths)[lists.values > 0]
    values = lists.values[lists.values > 0]
    total = np.bincount(rows, weights=scores[rows, values], minlength=len(lists))
    counts = np.bincount(rows, minlength=len(lists))
    return np.divide(total, counts, out=np.full(len(lists), np.nan), where=counts > 0)
