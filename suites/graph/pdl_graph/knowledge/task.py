"""The task: what a knowledge graph does not say yet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any, Literal

import numpy as np

import pdl
from pdl.data import DataLoader, Fault
from pdl.errors import ConfigError
from pdl.hints import Range
from pdl.nn import Module
from pdl.ranking import Ties
from pdl.train import Deployed, Loss, Metric, Recipe, SmokeTest, Task
from pdl.train.task import SPLITS
from pdl_graph.data.triples import KINDS, triples_of, vocabularies_of
from pdl_graph.knowledge.baselines import baselines
from pdl_graph.knowledge.check import check_recipe
from pdl_graph.knowledge.deploy import KnowledgeDeployer
from pdl_graph.knowledge.loader import Queries, RankedQueries, TrainingQueries
from pdl_graph.knowledge.losses import NEVER, Kind, margin_loss, n3, self_adversarial, softmax
from pdl_graph.knowledge.metrics import TIES, Measure, Ranks, names
from pdl_graph.knowledge.queries import KnownAnswers
from pdl_graph.knowledge.report import KnowledgeReporter
from pdl_graph.models.knowledge import KnowledgeModel


class KnowledgeGraph(Task):
    """Completion of a knowledge graph: for (head, relation, ?) and (?, relation, tail), which entity?

    loss               self_adversarial, softmax or margin (`pdl_graph.knowledge.losses`)
    negative_sampling  what an answer is compared with: "shared", `num_negatives` entities drawn for a batch, known
                       answers left out; "all", all entities (softmax only; other answers of the training data count as
                       wrong there, as in Lacroix et al., arXiv 1806.07297)
    num_negatives      how many
    temperature        of the self-adversarial weights (the RotatE paper's alpha)
    margin             of the margin loss
    n3                 weight of the nuclear 3-norm of the vectors that take part
    subsampling        whether frequent facts count less, as in the RotatE paper's code (see `TrainingQueries`)
    cutoffs            hits@k is measured for these k
    ties               entities that score the same as the answer: it shares their mean rank ("average"), or stands
                       behind ("conservative") or before them ("optimistic")

    A sample is a query: every fact asks for its tail and for its head, so an epoch has two for each. Evaluation is
    by filtered ranking (Bordes et al., NIPS 2013): all entities compete but for other answers that train, val or test
    know. Entities and relations are those of all splits, as the benchmarks have it: one without a fact in training
    keeps the vector it began with.
    """

    monitor = "val/mrr"
    monitor_mode = "max"
    overfits = "training"

    def __init__(
        self,
        *,
        loss: Kind = "self_adversarial",
        negative_sampling: Literal["shared", "all"] = "shared",
        num_negatives: Annotated[int, Range(1)] = 256,
        temperature: Annotated[float, Range(0)] = 1.0,
        margin: Annotated[float, Range(0)] = 1.0,
        n3: Annotated[float, Range(0)] = 0.0,
        subsampling: bool = False,
        cutoffs: Sequence[Annotated[int, Range(1)]] = (1, 3, 10),
        ties: Ties = "average",
    ) -> None:
        if negative_sampling == "all" and loss != "softmax":
            raise ConfigError(f"task: negative_sampling=all goes with loss=softmax, not {loss}; draw some for {loss}")
        self.loss, self.negative_sampling, self.num_negatives = loss, negative_sampling, num_negatives
        self.temperature = temperature
        self.margin, self.n3, self.subsampling, self.cutoffs, self.ties = margin, n3, subsampling, tuple(cutoffs), ties
        self.known: dict[str, np.ndarray] = {}  # facts int32 [T, 3] by split

    # -- training ------------------------------------------------------------------------------------------------------
    def step(self, model: Module, batch: Any) -> Loss:
        assert isinstance(model, KnowledgeModel)
        given = (pdl.as_tensor(batch[name]) for name in ("entity", "relation", "inverse"))
        entity, relation = model.vectors(tuple(given))  # type: ignore[arg-type]
        query, answer = model.query(entity, relation), model.entities(pdl.as_tensor(batch["answer"]))
        each = self._each(model, query, answer, batch)
        value = (each if "weight" not in batch else each * pdl.as_tensor(batch["weight"])).mean()
        if self.n3:
            value = value + n3(tuple(model.moduli(v) for v in (entity, relation, answer))) * self.n3
        return Loss(value, query.shape[0])

    def _each(self, model: KnowledgeModel, query: pdl.Tensor, answer: pdl.Tensor, batch: Any) -> pdl.Tensor:
        if self.negative_sampling == "all":
            return all_entities(model, query, pdl.as_tensor(batch["answer"]))
        negatives = model.score_all(query, model.entities(pdl.as_tensor(batch["negatives"])))
        negatives = pdl.where(pdl.as_tensor(batch["known"]), NEVER, negatives)
        positive = model.score(query, answer)
        if self.loss == "softmax":
            return softmax(positive, negatives, model.num_entities)
        if self.loss == "margin":
            return margin_loss(positive, negatives, self.margin)
        return self_adversarial(positive, negatives, self.temperature)

    def evaluate(self, model: Module, batch: Any) -> Loss:
        """Scores of all entities that are ranked, and what `Ranks` wants beside; the loss is the mean cross-entropy
        of the answer among them. Batches of training have the loss of training, and nothing is ranked."""
        if "excluded" not in batch:
            return self.step(model, batch)
        scores, answer, excluded = self.scores(model, batch), batch["answer"], batch["excluded"]
        rows = np.arange(len(scores))
        scores[np.repeat(rows, excluded.lengths), excluded.values] = -np.inf
        known = np.isfinite(scores[rows, answer])
        loss = pdl.as_tensor(np.float32(0.0))
        if known.any():
            loss = pdl.cross_entropy(pdl.as_tensor(scores[known]), pdl.as_tensor(answer[known]))
        return Loss(loss, int(known.sum()), (scores, answer, excluded, batch["index"]))

    def scores(self, model: Module, query: Mapping[str, Any]) -> np.ndarray:
        """float32 [N, num_entities + 1] for "entity", "relation" and "inverse", int64 [N] each; -infinity for entity 0,
        and for all where the query is of an unknown entity or relation."""
        queried = [np.asarray(query[name]) for name in ("entity", "relation", "inverse")]
        with pdl.no_grad():
            made: pdl.Tensor = model(*(pdl.as_tensor(each) for each in queried))
        found = np.array(made.data)
        found[:, 0] = -np.inf
        found[(queried[0] == 0) | (queried[1] == 0)] = -np.inf
        return found

    def metrics(self) -> dict[str, Metric]:
        ranks = Ranks(self.ties)
        return {"ranks": ranks, **{name: Measure(ranks, name) for name in names(self.cutoffs)}}

    def update_metrics(self, metrics: dict[str, Metric], loss: Loss, batch: Any) -> None:
        if loss.outputs:
            metrics["ranks"].update(*loss.outputs)

    def protocol(self) -> str:
        """How the metrics are measured, in words."""
        size = len(self.vocabularies["entities"])
        return (
            f"Every fact is asked for its tail and for its head. All {size:,} entities are ranked but for other "
            f"answers that train, val or test know (filtered ranking); {TIES[self.ties]}; mr is the mean rank, mrr the "
            "mean of 1 / rank, hits@k the share of ranks up to k."
        )

    # -- building ------------------------------------------------------------------------------------------------------
    def prepare(self, recipe: Recipe, datasets: Mapping[str, Any]) -> None:
        """Number entities and relations by all splits, and keep the facts of each for filtering: a split that is not
        measured is opened for that, too."""
        every = {**datasets, **recipe.data.datasets([split for split in SPLITS if split not in datasets])}
        every = {split: every[split] for split in SPLITS if split in every}
        found = vocabularies_of(list(every.values()))
        for kind in KINDS:
            self.vocabularies.setdefault(kind, found[kind])
        for split, dataset in every.items():
            base, _ = triples_of(dataset)
            base.bind(self.vocabularies)
            self.known[split] = triples_of(dataset)[1] if split == "train" else base.known

    def facts(self, recipe: Recipe) -> Mapping[str, Any]:
        return {f"num_{kind}": len(names) for kind, names in self.vocabularies.items()}

    def check_model(self, model: Module, datasets: Mapping[str, Any], recipe: Recipe) -> None:
        if not isinstance(model, KnowledgeModel | Deployed):  # a bundle is measured as it is deployed
            raise ConfigError(f"model: {type(model).__name__} is no pdl_graph.KnowledgeModel, such as pdl_graph.RotatE")

    def loader(self, dataset: Any, recipe: Recipe, *, training: bool, seed: int) -> Iterable[Any]:
        """Queries, shuffled anew in each epoch for training; otherwise in order, with the answers to leave out."""
        data, facts = recipe.data, triples_of(dataset)[1]
        sizes = [len(self.vocabularies[kind]) for kind in KINDS]
        source: Queries
        if training:
            known = KnownAnswers([facts], *sizes)
            k = None if self.negative_sampling == "all" else self.num_negatives
            facts = facts[(facts > 0).all(axis=1)]
            source = TrainingQueries(
                facts, known, sizes[0], k=k, subsampling=self.subsampling, seed=seed, source=dataset
            )
        else:
            source = self._ranked(dataset)
        return DataLoader(
            source,
            batch_size=data.size(training=training, default=512),
            shuffle=training,
            seed=seed,
            workers=data.workers,
            prefetch=data.prefetch,
            drop_last=training and data.drop_last,
        )

    def _ranked(self, dataset: Any) -> RankedQueries:
        """The queries of a data set, with the answers that any split knows."""
        sizes = [len(self.vocabularies[kind]) for kind in KINDS]
        return RankedQueries(triples_of(dataset)[1], KnownAnswers(list(self.known.values()), *sizes), dataset)

    def check(self, recipe: Recipe, progress: Any = None) -> list[Fault]:
        return check_recipe(recipe, progress)

    def smoke_test(self, recipe: Recipe) -> SmokeTest:
        return SmokeTest(
            train=200, test=20, epochs=8, batch_size=64, settings={"model.dim": 32, "task.num_negatives": 16}
        )

    # -- what a task hands over ----------------------------------------------------------------------------------------
    def baselines(self, recipe: Recipe, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
        """Answers by frequency and by rules of one step, ranked by the same protocol."""
        sizes = [len(self.vocabularies[kind]) for kind in KINDS]
        queried = self._ranked(datasets[split])
        return baselines(self.known["train"], queried, *sizes, cutoffs=self.cutoffs, ties=self.ties)

    def deployer(self, recipe: Recipe) -> KnowledgeDeployer:
        return KnowledgeDeployer(self, recipe)

    def reporter(self) -> KnowledgeReporter:
        return KnowledgeReporter(self)


def all_entities(model: KnowledgeModel, query: pdl.Tensor, answer: pdl.Tensor) -> pdl.Tensor:
    """The cross-entropy of each answer, int64 [N], among all entities: [N]."""
    table = model.entities.weight
    if model.metric is None:
        return pdl.linear_cross_entropy(query, table, None, answer, transposed=True, first=1, reduction="none")
    scores = model.score_all(query, table[1:])
    return pdl.cross_entropy(scores, answer - 1, reduction="none")
