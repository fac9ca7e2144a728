"""The task: what a knowledge graph does not say yet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np

import pdl
from pdl.data import DataLoader, Fault
from pdl.errors import ConfigError
from pdl.export.deployment import Deployment
from pdl.hints import Range
from pdl.nn import Module
from pdl.ranking import Ties
from pdl.report import Section
from pdl.train import Deployed, Evaluation, Loss, Metric, Recipe, SmokeTest, Task
from pdl.train.task import SPLITS
from pdl_graph.data.triples import KINDS, triples_of, vocabularies_of
from pdl_graph.data.triples_check import check_recipe
from pdl_graph.knowledge import use
from pdl_graph.knowledge.baselines import baselines
from pdl_graph.knowledge.known import Known
from pdl_graph.knowledge.loader import Questions, Ranked, Training
from pdl_graph.knowledge.losses import NEVER, Kind, margin_loss, n3, self_adversarial, softmax
from pdl_graph.knowledge.ranking import TIES, Measure, Ranks, names
from pdl_graph.knowledge.report import sections
from pdl_graph.models.knowledge import KnowledgeModel


class KnowledgeGraph(Task):
    """Completion of a knowledge graph: for (head, relation, ?) and (?, relation, tail), which entity?

    loss           self_adversarial, softmax or margin (`pdl_graph.knowledge.losses`)
    negatives      what an answer is told from: "shared", `num_negatives` entities drawn for a batch, known answers left
                   out; "all", all entities (softmax only; other answers of the training data count as wrong there, as
                   in Lacroix et al., arXiv 1806.07297)
    num_negatives  how many
    temperature    of the self-adversarial weights (the RotatE paper's alpha)
    margin         of the margin loss
    n3             weight of the nuclear 3-norm of the vectors that take part
    subsampling    whether frequent facts count less, as in the RotatE paper's code (see `Training`)
    cutoffs        hits@k is measured for these k
    ties           entities that score the same as the answer: it shares their mean rank ("average"), or stands behind
                   ("conservative") or before them ("optimistic")

    A sample is a question: every fact asks for its tail and for its head, so an epoch has two for each. Evaluation is
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
        negatives: Literal["shared", "all"] = "shared",
        num_negatives: Annotated[int, Range(1)] = 256,
        temperature: Annotated[float, Range(0)] = 1.0,
        margin: Annotated[float, Range(0)] = 1.0,
        n3: Annotated[float, Range(0)] = 0.0,
        subsampling: bool = False,
        cutoffs: Sequence[Annotated[int, Range(1)]] = (1, 3, 10),
        ties: Ties = "average",
    ) -> None:
        if negatives == "all" and loss != "softmax":
            raise ConfigError(f"task: negatives=all goes with loss=softmax, not {loss}; draw some for {loss}")
        self.loss, self.negatives, self.num_negatives, self.temperature = loss, negatives, num_negatives, temperature
        self.margin, self.n3, self.subsampling, self.cutoffs, self.ties = margin, n3, subsampling, tuple(cutoffs), ties
        self.known: dict[str, np.ndarray] = {}  # facts int32 [T, 3] by split

    # -- training ------------------------------------------------------------------------------------------------------
    def step(self, model: Module, batch: Any) -> Loss:
        assert isinstance(model, KnowledgeModel)
        question = (pdl.as_tensor(batch[name]) for name in ("entity", "relation", "inverse"))
        entity, relation = model.vectors(tuple(question))  # type: ignore[arg-type]
        query, answer = model.query(entity, relation), model.entities(pdl.as_tensor(batch["answer"]))
        each = self._each(model, query, answer, batch)
        value = (each if "weight" not in batch else each * pdl.as_tensor(batch["weight"])).mean()
        if self.n3:
            value = value + n3(tuple(model.moduli(v) for v in (entity, relation, answer))) * self.n3
        return Loss(value, query.shape[0])

    def _each(self, model: KnowledgeModel, query: pdl.Tensor, answer: pdl.Tensor, batch: Any) -> pdl.Tensor:
        if self.negatives == "all":
            return all_entities(model, query, pdl.as_tensor(batch["answer"]))
        others = model.among(query, model.entities(pdl.as_tensor(batch["others"])))
        others = pdl.where(pdl.as_tensor(batch["known"]), NEVER, others)
        own = model.own(query, answer)
        if self.loss == "softmax":
            return softmax(own, others, model.num_entities)
        if self.loss == "margin":
            return margin_loss(own, others, self.margin)
        return self_adversarial(own, others, self.temperature)

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

    def scores(self, model: Module, question: Mapping[str, Any]) -> np.ndarray:
        """float32 [N, num_entities + 1] for "entity", "relation" and "inverse", int64 [N] each; -infinity for entity 0,
        and for all where the question is of an unknown entity or relation."""
        asked = [np.asarray(question[name]) for name in ("entity", "relation", "inverse")]
        with pdl.no_grad():
            made: pdl.Tensor = model(*(pdl.as_tensor(each) for each in asked))
        found = np.array(made.data)
        found[:, 0] = -np.inf
        found[(asked[0] == 0) | (asked[1] == 0)] = -np.inf
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
        """Questions, shuffled anew in each epoch for training; otherwise in order, with the answers to leave out."""
        data, facts = recipe.data, triples_of(dataset)[1]
        sizes = [len(self.vocabularies[kind]) for kind in KINDS]
        source: Questions
        if training:
            known = Known([facts], *sizes)
            k = None if self.negatives == "all" else self.num_negatives
            facts = facts[(facts > 0).all(axis=1)]
            source = Training(facts, known, sizes[0], k=k, subsampling=self.subsampling, seed=seed, source=dataset)
        else:
            source = Ranked(facts, Known(list(self.known.values()), *sizes), dataset)
        return DataLoader(
            source,
            batch_size=data.size(training=training, default=512),
            shuffle=training,
            seed=seed,
            workers=data.workers,
            prefetch=data.prefetch,
            drop_last=training and data.drop_last,
        )

    def baselines(self, recipe: Recipe, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
        """Answers by frequency and by rules of one step, ranked by the same protocol."""
        sizes = [len(self.vocabularies[kind]) for kind in KINDS]
        asked = Ranked(triples_of(datasets[split])[1], Known(list(self.known.values()), *sizes), datasets[split])
        return baselines(self.known["train"], asked, *sizes, cutoffs=self.cutoffs, ties=self.ties)

    def check(self, recipe: Recipe, progress: Any = None) -> list[Fault]:
        return check_recipe(recipe, progress)

    def smoke_test(self, recipe: Recipe) -> SmokeTest:
        return SmokeTest(
            train=200, test=20, epochs=8, batch_size=64, settings={"model.dim": 32, "task.num_negatives": 16}
        )

    def report(self, evaluation: Evaluation, dataset: Any) -> list[Section]:
        """Measures by direction, by kind of relation and by relation."""
        relations = self.vocabularies["relations"]
        return sections(
            evaluation,
            dataset,
            relations,
            train=self.known.get("train"),
            cutoffs=self.cutoffs,
            protocol=self.protocol(),
        )

    # -- using ---------------------------------------------------------------------------------------------------------
    def example(self, loaders: Mapping[str, Any], folder: Path) -> str:
        return use.example(self, loaders)

    def deployment(
        self,
        model: Module,
        recipe: Recipe,
        *,
        dataset: Any = None,
        metrics: Mapping[str, float | None] | None = None,
        licence: str = "",
    ) -> Deployment:
        return use.deployment(self, model, recipe, dataset=dataset, metrics=metrics, licence=licence)


def all_entities(model: KnowledgeModel, query: pdl.Tensor, answer: pdl.Tensor) -> pdl.Tensor:
    """The cross-entropy of each answer, int64 [N], among all entities: [N]."""
    table = model.entities.weight
    if model.metric is None:
        return pdl.linear_cross_entropy(query, table, None, answer, transposed=True, first=1, reduction="none")
    scores = model.among(query, table[1:])
    return pdl.cross_entropy(scores, answer - 1, reduction="none")


__all__ = ["KnowledgeGraph", "all_entities"]
