"""`Task`: all that the trainer knows of what is being learned.

The loop calls these methods and nothing else, so a batch may be anything the task's own loaders give and its own
`step` takes: pictures, sentences, graphs, circuits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np

from pdl.data import DataLoader, Dataset, Fault, IterableDataset, Sample, Subset
from pdl.errors import ConfigError, DataError, UsageError
from pdl.nn import init
from pdl.tensor import Tensor
from pdl.train.metrics import Metric
from pdl.vocabulary import Vocabulary

if TYPE_CHECKING:
    from pdl.export.deployment import Deployment
    from pdl.nn import Module
    from pdl.report import Section
    from pdl.runtime.readers import Reader
    from pdl.train.loop import Evaluation

SPLITS = ("train", "val", "test")


@dataclass
class Loss:
    """What one batch gave.

    value    a tensor with one element: the mean loss over the batch
    weight   how many samples (tokens, edges, ...) that mean is over, for exact means over batches of unequal size
             (a number, or a tensor with one element)
    outputs  handed to every metric as `metric.update(*outputs)`: arrays, or tensors, which the metric gets as arrays
             (predictions, targets); may be left empty in training
    parts    further numbers (or tensors with one element) to log beside the loss, for example {"box": 0.31}

    A training step is compiled: `step` runs once for each shape of batch, on tensors without values. So leave tensors
    as they are (`x.detach()`, not `x.data` or `float(x)`); a step that must see values still works, in eager mode.
    """

    value: Tensor
    weight: float | Tensor = 1.0
    outputs: tuple[Any, ...] = ()
    parts: dict[str, float | Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Tiny:
    """What `pdl selftest` makes of a recipe so that all of it takes seconds.

    train, test   samples of the training data, and of each other split
    epochs        passes over them
    batch_size    at most so many samples in a step
    settings      further settings by dotted key, such as {"model.depth": 2}
    """

    train: int = 192
    test: int = 40
    epochs: int = 8
    batch_size: int = 32
    settings: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Parts:
    """What a task builds: a model, and a re-iterable source of batches for every split it has ("train", and maybe
    "val" and "test"); `datasets` are what these read, as `prepare` left them.

    A loader may offer `set_epoch(e)`, `len()`, and `state_dict` / `load_state_dict` for its position
    (`pdl.data.DataLoader` does);
    without the latter a resumed run skips the batches it has seen.
    """

    model: Module
    loaders: dict[str, Iterable[Any]]
    datasets: Mapping[str, Any] = field(default_factory=dict)


class Task:
    """Base of all tasks. A subclass must define `step`; what else it overrides is up to it.

    A task is built from the recipe's `task` node: the keyword arguments of its constructor are the keys there.
    """

    monitor: ClassVar[str] = "val/loss"
    """The validation metric that decides which weights are best, unless the recipe names another."""
    monitor_mode: ClassVar[Literal["max", "min"]] = "min"

    @cached_property
    def vocabularies(self) -> dict[str, Vocabulary]:
        """What the data names, by kind: {"items": ..., "users": ...}. `prepare` fills in what is not there yet; a run
        folder keeps them, and a task of that run starts with them, whatever data it is given.
        """
        return {}

    # -- training ------------------------------------------------------------------------------------------------------
    def step(self, model: Module, batch: Any) -> Loss:
        """The loss of one batch, differentiable; called with the model in training mode."""
        raise NotImplementedError(f"{type(self).__name__} must define step")

    def evaluate(self, model: Module, batch: Any) -> Loss:
        """The same in evaluation mode, without gradients, and with `outputs` for the metrics."""
        return self.step(model, batch)

    def metrics(self) -> dict[str, Metric]:
        """Fresh accumulators by name, for one evaluation. The mean loss is always there without being named."""
        return {}

    def observe(self, metrics: dict[str, Metric], loss: Loss, batch: Any) -> None:
        """Show one evaluated batch to the accumulators; override where they need more than `loss.outputs`."""
        for metric in metrics.values():
            metric.update(*loss.outputs)

    # -- building ------------------------------------------------------------------------------------------------------
    def build(
        self, cfg: Any, *, seed: int = 0, splits: Sequence[str] = SPLITS, training: bool = True, overfit: int = 0
    ) -> Parts:
        """Data sets, then the model, from the recipe's `data` and `model` sections.

        Without `training` the training data, too, comes in order and unchanged. With `overfit` every split is that
        many such samples of it.
        """
        datasets = self.datasets(cfg, ("train",) if overfit else splits)
        if overfit:
            few = first_samples(datasets["train"], overfit)
            datasets = dict.fromkeys(("train", "val"), few)
        self.prepare(cfg, datasets)
        model = self.model(cfg)
        self.verify(model, datasets, cfg)
        learning = training and not overfit
        loaders = {
            name: self.loader(cfg, data, training=learning and name == "train", seed=seed)
            for name, data in datasets.items()
        }
        return Parts(model, loaders, datasets)

    def datasets(self, cfg: Any, splits: Sequence[str] = SPLITS) -> dict[str, Any]:
        """The data set of each of these splits that the recipe has."""
        from pdl.config import build

        found = {split: build(cfg["data"][split]) for split in splits if cfg["data"].get(split) is not None}
        for split, dataset in found.items():
            if isinstance(dataset, Dataset) and len(dataset) == 0:
                raise DataError(f"data.{split}: the data set has no samples; give it some, or set data.{split}=null")
        return found

    def prepare(self, cfg: Any, datasets: Mapping[str, Any]) -> None:
        """Look at the data before the model is built: class names, vocabularies, sizes."""

    def model(self, cfg: Any) -> Module:
        """The model, with fresh weights."""
        from pdl.config import build

        made: Module = build(cfg["model"])
        return made

    def verify(self, model: Module, datasets: Mapping[str, Any], cfg: Any) -> None:
        """Raise ConfigError where model and data do not fit, before any time is spent."""

    def loader(self, cfg: Any, dataset: Any, *, training: bool, seed: int) -> Iterable[Any]:
        """Batches of a data set: shuffled and augmented for training, otherwise in order."""
        data = cfg["data"]
        batch_size = data.get("batch_size", 32)
        return DataLoader(
            dataset,
            batch_size=batch_size if training else data.get("eval_batch_size") or batch_size,
            shuffle=training and not isinstance(dataset, IterableDataset),
            transforms=self.transforms(data.get("transforms") or {}, training),
            seed=seed,
            workers=data.get("workers", 0),
            prefetch=data.get("prefetch", 2),
            drop_last=training and bool(data.get("drop_last", False)),
            on_error=data.get("on_error", "error"),
        )

    def transforms(self, stages: Mapping[str, Any], training: bool) -> list[Any]:
        """The list of transforms for training (`train`, then `batch`) or for everything else (`eval`)."""
        from pdl.config import build

        names = ("train", "batch") if training else ("eval",)
        return [build(node) for name in names for node in stages.get(name) or ()]

    # -- using ---------------------------------------------------------------------------------------------------------
    def remember(self) -> dict[str, Any]:
        """What the data told and prediction needs, as config keys to lay over the recipe: {"task": {"classes": [...]}}.

        It is written into the run's config.yaml, so that the run can be used where the data is not.
        """
        return {}

    def restore(self, cfg: Any) -> Module:
        """The model of a run, from its config alone: no data set is opened. The run's weights follow, so none are
        drawn."""
        with init.skipped():
            return self.model(cfg)

    def reader(self, cfg: Any) -> Reader | None:
        """What says what an input of `predict` is, where it is no file: the first step of the bundle's pipeline, bound
        to the task's vocabularies. `pdl predict` then takes such inputs, and files of them.
        """
        return None

    def predict(
        self, model: Module, inputs: Sequence[Any], *, cfg: Any, batch_size: int = 32, **options: Any
    ) -> Iterator[dict[str, Any]]:
        """One dict for each input, in order: plain values, fit for JSON; what only `render` needs has names that
        begin with "_". By default through the steps that the bundle would have; `topk` is an option of steps with k.
        """
        from pdl.workflow.answering import Answering

        unknown = sorted(set(options) - {"topk"})
        if unknown:
            raise UsageError(f"{type(self).__name__} has no option {', '.join(unknown)}; it takes topk")
        return Answering(self.deployment(model, cfg), **options).predict(inputs, batch_size)

    def deployment(
        self,
        model: Module,
        cfg: Any,
        *,
        dataset: Any = None,
        metrics: Mapping[str, float | None] | None = None,
        licence: str = "",
    ) -> Deployment:
        """What to put into a bundle (`pdl export`).

        dataset   whose first samples the bundle is checked with; without one the task makes some up
        metrics   for the card
        """
        raise UsageError(
            f"{type(self).__name__} says nothing about deployment, so its models can be neither exported nor asked; "
            "override Task.deployment"
        )

    def example(self, loaders: Mapping[str, Any], folder: Path) -> str:
        """What to put behind `pdl predict RUN` as a first try; a file made for it may be left in the run folder."""
        return "INPUT"

    def render(self, prediction: dict[str, Any], folder: Path) -> Path:
        """Draw a prediction into a file of the folder (`pdl predict --save`)."""
        raise UsageError(f"{type(self).__name__} draws no predictions; leave out --save")

    def report(self, evaluation: Evaluation, dataset: Any) -> list[Section]:
        """Sections of report.html on the final evaluation, beyond curves and tables."""
        return []

    def log_report(self, lines: Sequence[Mapping[str, Any]]) -> list[Section]:
        """Sections of report.html on the log (the lines of metrics.jsonl), beyond a chart for each metric."""
        return []

    def figures(self, evaluation: Evaluation) -> dict[str, float]:
        """What a run is known by beyond its splits, from its final evaluation: {"energy": -1.137}. Their names have no
        split in front; they stand first in result.json, and `pdl eval` gives them, too."""
        return {}

    def baselines(self, cfg: Any, datasets: Mapping[str, Any], split: str) -> dict[str, dict[str, float]]:
        """What simple methods reach on a split, with the model's protocol: {"popularity": {"recall@20": 0.09}}.

        They are fitted on datasets["train"] and measured on datasets[split], both as `prepare` leaves them. Computed
        once after the test of a training, and by `pdl eval`.
        """
        return {}

    def check(self, cfg: Any, progress: Any = None) -> list[Fault]:
        """What is wrong with the data of the recipe; an empty list is good news (`pdl check`)."""
        from pdl.config import build
        from pdl.data import check

        nodes = {split: cfg["data"][split] for split in SPLITS if cfg["data"].get(split) is not None}
        sources = {split: (lambda node=node: build(node)) for split, node in nodes.items()}
        return check(sources, num_classes=self.num_classes(cfg), progress=progress)

    def tiny(self, cfg: Any) -> Tiny:
        """How `pdl selftest` cuts this recipe down. The loss must still fall."""
        return Tiny()

    def num_classes(self, cfg: Any) -> int | None:
        """How many classes the recipe's model tells apart, where that is a question."""
        return None


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
