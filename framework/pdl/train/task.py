"""`Task`: what the training loop calls.

The loop calls these methods and nothing else, so a batch may be anything the task's own loaders give and its own
`step` takes: images, sentences, graphs, circuits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from pdl.data import DataLoader, Fault, IterableDataset, Sample, Subset, check
from pdl.dtype import Array
from pdl.errors import ConfigError, UsageError
from pdl.hints import part
from pdl.tensor import Tensor
from pdl.train.metrics import Metric
from pdl.train.parts import Deployer, Reporter, SmokeTest
from pdl.train.previewing import Previewer
from pdl.vocabulary import Vocabulary

if TYPE_CHECKING:
    from pdl.nn import Module
    from pdl.train.assembly import Parts
    from pdl.train.loop import Evaluation
    from pdl.train.recipe import Recipe
    from pdl.train.settings import TrainSettings

SPLITS = ("train", "val", "test")


@dataclass
class Loss:
    """What one batch gave.

    value    a tensor with one element: the mean loss over the batch
    weight   how many samples (tokens, edges, ...) that mean is over, for exact means over batches of unequal size
             (a number, or a tensor with one element)
    outputs  handed to every metric as `metric.update(*outputs)`: arrays, or tensors, which the metric gets as arrays
             (predictions, targets); may be left empty in training
    parts    further numbers (or tensors with one element) to log with the loss, for example {"box": 0.31}
    known    False in an evaluation without a loss, such as that of a bundle which gives answers alone: no metric "loss"

    A training step is compiled: `step` runs once for each shape of batch, on tensors without values. So leave tensors
    as they are (`x.detach()`, not `x.data` or `float(x)`); a step that must see values still works, in eager mode.
    """

    value: Tensor
    weight: float | Tensor = 1.0
    outputs: tuple[Any, ...] = ()
    parts: dict[str, float | Tensor] = field(default_factory=dict)
    known: bool = True


@part
class Task:
    """Base of all tasks. A subclass must define `step`; what else it overrides is up to it.

    A task is built from the recipe's `task` node: the keyword arguments of its constructor are the keys there.
    """

    monitor: str = "val/loss"
    """The validation metric that decides which weights are best, unless the recipe names another."""
    monitor_mode: ClassVar[Literal["max", "min"]] = "min"
    overfits: ClassVar[Literal["evaluation", "training", ""]] = "evaluation"
    """What `--overfit` learns the few samples from: batches as for evaluation (in order, not augmented), batches as for
    training, or "" where there are no samples that could be learned by heart."""

    unlearned: Sequence[str] = ()
    """Classes among the answers that nothing is learned of, so that training needs no sample of them."""
    fold_by: str | None = None
    """The column of a table whose values every fold of a cross-validation has its share of."""
    shares_evaluation: ClassVar[bool] = True
    """Whether several processes may share an evaluation: False where `evaluate` keeps something of a batch in the task,
    or calls for all batches to be seen."""
    bounds: ClassVar[tuple[str, ...]] = ()
    """Names among `baselines` that are no methods, but what no model is expected to pass."""
    outermost: ClassVar[tuple[str, ...]] = ()
    """Names among `facts` that are for the model itself and not for parts nested in it: an encoder has outputs of its
    own."""

    @cached_property
    def vocabularies(self) -> dict[str, Vocabulary]:
        """Vocabularies of the data, by kind: {"items": ..., "users": ...}. `prepare` fills in what is not there yet; a
        run folder keeps them, and a task of that run starts with them, whatever data it is given.
        """
        return {}

    @cached_property
    def constants(self) -> dict[str, np.ndarray]:
        """Arrays that belong to the vocabularies, by name, such as the merges of a tokenizer; kept as these are."""
        return {}

    # -- training ------------------------------------------------------------------------------------------------------
    def monitored(self, settings: TrainSettings) -> tuple[str, Literal["max", "min"]]:
        """The metric that decides which weights are best, and whether more or less of it is better: less of a loss,
        whatever the task monitors by itself."""
        name = settings.monitor or self.monitor
        loss = name != self.monitor and name.rpartition("/")[2] == "loss"
        return name, settings.monitor_mode or ("min" if loss else self.monitor_mode)

    def step(self, model: Module, batch: Any) -> Loss:
        """The loss of one batch, differentiable; called with the model in training mode."""
        raise NotImplementedError(f"{type(self).__name__} must define step")

    def players(self, model: Module) -> Sequence[str]:
        """Names of modules of the model that learn in turn, each with an optimiser of its own, by the loss of its
        `turn`; the recipe's `players` says how. Empty where the whole model learns by the loss of `step`."""
        return ()

    def turn(self, player: str, model: Module, batch: Any) -> Loss:
        """The loss of a batch that a player learns by; parameters of the others are held still meanwhile."""
        raise NotImplementedError(f"{type(self).__name__} has players, so it must define turn")

    def evaluate(self, model: Module, batch: Any) -> Loss:
        """The same in evaluation mode, without gradients, and with `outputs` for the metrics."""
        return self.step(model, batch)

    def table_rows(self, model: Module, batch: Any) -> dict[str, Array]:
        """Which rows of which tables (names of parameters) a training batch looks up, as integers of any shape, where
        that is known from the batch: servers are asked for them beforehand (`distributed.tables`)."""
        return {}

    def metrics(self) -> dict[str, Metric]:
        """Fresh accumulators by name, for one evaluation. The mean loss is always there without being named."""
        return {}

    def update_metrics(self, metrics: dict[str, Metric], loss: Loss, batch: Any) -> None:
        """Show one evaluated batch to the accumulators; override where they need more than `loss.outputs`."""
        for metric in metrics.values():
            metric.update(*loss.outputs)

    def summary_metrics(self, evaluation: Evaluation) -> dict[str, float]:
        """Results of a run as a whole rather than of a split, from its final evaluation: {"energy": -1.137}. Their
        names have no split in front; they stand first in result.json, and `pdl eval` gives them, too."""
        return {}

    def calibrate(self, evaluation: Evaluation) -> Mapping[str, Any]:
        """Choose on validation data what no gradient learns, such as a threshold: values for buffers of the model, by
        name. Called after each evaluation of val in training, before its weights are kept; where there are any, val is
        measured again with them."""
        return {}

    def pictures(self, evaluation: Evaluation) -> Mapping[str, Array]:
        """Pictures uint8 [H, W, 1 or 3] by name that show how training goes: those of each evaluation on the validation
        data are kept in the run folder, and shown in its report."""
        return {}

    # -- data and model ------------------------------------------------------------------------------------------------
    def prepare(self, recipe: Recipe, datasets: Mapping[str, Any]) -> None:
        """Look at the data before the model is built: class names, vocabularies, sizes."""

    def facts(self, recipe: Recipe) -> Mapping[str, Any]:
        """What the data says of arguments that the recipe's model may leave open: {"num_classes": 10}."""
        return {}

    def model(self, recipe: Recipe) -> Module:
        """The model, with fresh weights: the recipe's, with what it leaves open from `facts`."""
        made: Module = recipe.model.completed(self.facts(recipe), outer=self.outermost).build()
        return made

    def check_model(self, model: Module, datasets: Mapping[str, Any], recipe: Recipe) -> None:
        """Raise ConfigError where model and data do not fit, before any time is spent."""

    def loader(self, dataset: Any, recipe: Recipe, *, training: bool, seed: int) -> Iterable[Any]:
        """Batches of a data set: shuffled and augmented for training, otherwise in order."""
        data = recipe.data
        sampler = data.sampler(dataset, seed=seed) if training else None
        return DataLoader(
            dataset,
            batch_size=data.size(training=training),
            shuffle=training and sampler is None and not isinstance(dataset, IterableDataset),
            sampler=sampler,
            transforms=data.transforms(training=training),
            seed=seed,
            workers=data.workers,
            prefetch=data.prefetch,
            drop_last=training and data.drop_last,
            on_error=data.on_error,
            cache=data.cache if training else 0,
        )

    def assembled(self, parts: Parts, recipe: Recipe, *, training: bool) -> None:
        """Called once model, data sets and loaders are built; `training`: whether the model is to be trained."""

    def learned_config(self) -> dict[str, Any]:
        """Arguments of the task that were inferred from the data and that prediction needs: {"classes": [...]}.

        They are written into the run's config.yaml, as the model's from `facts` are, so that the run can be used where
        the data is not.
        """
        return {}

    # -- what a task hands over ----------------------------------------------------------------------------------------
    def deployer(self, recipe: Recipe) -> Deployer:
        """Who makes bundles of its models and answers with them."""
        raise UsageError(
            f"{type(self).__name__} has no deployer, so its models can be neither exported nor asked; override "
            "Task.deployer"
        )

    def reporter(self) -> Reporter:
        """Who writes what report.html says beyond result and curves."""
        return Reporter(self)

    def previewer(self, recipe: Recipe) -> Previewer:
        """Who shows its samples (`pdl preview`)."""
        return Previewer(self, recipe)

    def smoke_test(self, recipe: Recipe) -> SmokeTest:
        """How `pdl selftest` cuts this recipe down. The loss must still fall."""
        return SmokeTest()

    # -- data ----------------------------------------------------------------------------------------------------------
    def baselines(self, recipe: Recipe, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
        """What simple methods reach on a split, with the model's protocol: {"popularity": {"recall@20": 0.09}}.

        They are fitted on datasets["train"] and measured on datasets[split], both as `prepare` leaves them. Computed
        once after the test of a training, and by `pdl eval`.
        """
        return {}

    def data_at(self, path: Path, split: str) -> dict[str, Any]:
        """The data set, as a recipe writes it, of what lies at a path, or of its `split` where it has that: other data,
        for a model that is trained (`pdl eval --data`). UsageError where the task cannot tell by the path alone."""
        raise UsageError(
            f"--data: {type(self).__name__} does not read data by its path alone; set the arguments of the data set, "
            "such as data.test.root=PATH"
        )

    def check(self, recipe: Recipe, progress: Any = None) -> list[Fault]:
        """What is wrong with the data of the recipe; an empty list is good news (`pdl check`)."""
        sources = {split: part.build for split, part in recipe.data.splits.items()}
        return check(sources, num_classes=recipe.model.get("num_classes"), progress=progress)


class _First(IterableDataset):
    """The first n samples of a stream."""

    def __init__(self, stream: IterableDataset, n: int) -> None:
        self.stream, self.n, self.classes = stream, n, stream.classes

    def __iter__(self) -> Iterator[Sample]:
        return islice(iter(self.stream), self.n)


def first_samples(dataset: Any, n: int) -> Any:
    """`n` samples spread evenly over a data set (sorted ones give every class), or the first `n` of a stream."""
    if isinstance(dataset, IterableDataset):
        return _First(dataset, n)
    if n > len(dataset):
        raise ConfigError(f"overfit={n} is more than the {len(dataset)} samples of the training data")
    return Subset(dataset, np.arange(n) * len(dataset) // n)
