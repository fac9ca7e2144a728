"""A recipe as training reads it: the schema that its file is checked against, and `Recipe`, the checked one.

A task reads a recipe by its fields (`recipe.data.batch_size`, `recipe.model.target`) and never as a bare tree.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Annotated, Any, Literal

from pdl import config
from pdl.config import Config, Fault, build
from pdl.config.inferred import check_complete, filled, infer
from pdl.config.signature import SECTION, TARGET, Argument, Supplied, signature
from pdl.config.tree import plain
from pdl.data import Dataset, IterableDataset, Sampler, Transform, WeightedSampler, labels_of
from pdl.errors import DataError
from pdl.hints import Range
from pdl.nn import Module
from pdl.optim import Optimizer, Schedule
from pdl.suites import locate
from pdl.train.compression import Compression
from pdl.train.settings import Distributed, TrainSettings
from pdl.train.task import SPLITS, Task
from pdl.train.tracking import Tracker


# -- the schema --------------------------------------------------------------------------------------------------------
@dataclass
class Transforms:
    """Lists of transforms: on training samples, on evaluation samples, and on whole training batches."""

    train: list[Transform] = field(default_factory=list)
    eval: list[Transform] = field(default_factory=list)
    batch: list[Transform] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Loading:
    """How data sets become batches: the keys of the `data` section besides the data sets and transforms.

    batch_size       samples of a training step
    eval_batch_size  samples of a batch elsewhere; by default the same
    workers          threads that prepare batches ahead; 0: none
    prefetch         batches that each of them holds ready
    drop_last        leave out a last training batch that is smaller
    balanced         draw training samples, with replacement, such that all classes come equally often; an epoch has as
                     many as before
    on_error         what a sample that cannot be read, or is annotated wrongly, does: stop ("error"), or be left out
                     ("skip")
    cache            MiB of training samples that stay decoded in memory; by default 512 where transforms join several
                     samples (Mosaic), otherwise 0
    """

    batch_size: Annotated[int, Range(1)] = 32
    eval_batch_size: Annotated[int, Range(1)] | None = None
    workers: Annotated[int, Range(0)] = 0
    prefetch: Annotated[int, Range(1)] = 2
    drop_last: bool = False
    balanced: bool = False
    on_error: Literal["error", "skip"] = "error"
    cache: Annotated[int, Range(0)] | None = None


@dataclass(frozen=True, kw_only=True)
class DataSection(Loading):
    """The `data` section: data sets by split, transforms of their samples, and how they are loaded."""

    train: Dataset | IterableDataset
    val: Dataset | IterableDataset | None = None
    test: Dataset | IterableDataset | None = None
    transforms: Annotated[Transforms, SECTION] = field(default_factory=Transforms)


@dataclass(frozen=True)
class PlayerSection:
    """How one of the players of a task learns (`Task.players`), such as its discriminator.

    optim  its optimiser; by default that of the recipe
    steps  that it makes of every batch
    """

    optim: Annotated[Optimizer, Supplied("params")] | None = None
    steps: Annotated[int, Range(1)] = 1


@dataclass
class Schema:
    """The top level of a recipe: the fields are the keys, the annotations what they may hold."""

    task: Task
    model: Module
    data: Annotated[DataSection, SECTION]
    optim: Annotated[Optimizer, Supplied("params")]
    players: dict[str, Annotated[PlayerSection, SECTION]] = field(default_factory=dict)
    schedule: Schedule | None = None
    train: Annotated[TrainSettings, SECTION] = field(default_factory=TrainSettings)
    distributed: Annotated[Distributed, SECTION] = field(default_factory=Distributed)
    compress: Annotated[Compression, SECTION] | None = None
    hooks: list[Tracker] = field(default_factory=list)


def check(tree: Config | Mapping[str, Any]) -> Config:
    """`pdl.config.check` against the schema of a recipe."""
    return config.check(tree if isinstance(tree, Config) else config.from_dict(dict(tree)), Schema)


def faults(tree: Config) -> list[Fault]:
    """`pdl.config.faults` against the schema of a recipe."""
    return config.faults(tree, Schema)


# -- the checked recipe ------------------------------------------------------------------------------------------------
class Part:
    """A part that the recipe names, not built yet: `recipe.model.target` is "pdl_cv.LeNet"."""

    def __init__(self, node: Mapping[str, Any]) -> None:
        self.node = node

    @property
    def target(self) -> str:
        """Its public import path."""
        return str(self.node[TARGET])

    @property
    def cls(self) -> Any:
        """The class or function."""
        return locate(self.target)

    @property
    def takes(self) -> Mapping[str, Argument]:
        """The arguments of its constructor, whether given or not."""
        return signature(self.cls).arguments

    def get(self, name: str, default: Any = None) -> Any:
        """An argument as the recipe gives it."""
        return self.node.get(name, default)

    def __contains__(self, name: str) -> bool:
        return name in self.node

    def part(self, name: str) -> Part | None:
        """An argument that is a part itself; None where it is not given, or something else."""
        node = self.node.get(name)
        return Part(node) if isinstance(node, Mapping) and TARGET in node else None

    def infer(self, facts: Mapping[str, Any], *, outer: Sequence[str] = ()) -> dict[str, Any]:
        """See `pdl.config.inferred.infer`."""
        return infer(self.node, facts, outer=outer)

    def completed(self, facts: Mapping[str, Any], *, outer: Sequence[str] = ()) -> Part:
        """The part with the arguments that the facts give and the recipe leaves open; ConfigError where it still lacks
        one."""
        whole = filled(self.node, self.infer(facts, outer=outer))
        check_complete(whole, facts)
        return Part(whole)

    def build(self, **supplied: Any) -> Any:
        """The object; `supplied` are arguments that the program gives."""
        return build(self.node, **supplied)


class Data(Loading):
    """The `data` section of a checked recipe."""

    def __init__(self, node: Mapping[str, Any]) -> None:
        given = {each.name: node[each.name] for each in fields(Loading) if each.name in node}
        super().__init__(**given)
        object.__setattr__(self, "node", node)
        object.__setattr__(self, "splits", {s: Part(node[s]) for s in SPLITS if node.get(s) is not None})

    node: Mapping[str, Any]
    splits: Mapping[str, Part]
    """The data set of each split that the recipe has, in the order of `SPLITS`."""

    def gives(self, key: str) -> bool:
        """Whether the recipe itself sets this key."""
        return self.node.get(key) is not None

    def size(self, *, training: bool, default: int = Loading.batch_size) -> int:
        """Samples of a batch; `default`: of training, where the recipe does not say."""
        own = self.batch_size if self.gives("batch_size") else default
        return own if training else self.eval_batch_size or own

    def sampler(self, dataset: Any, *, seed: int, num_samples: int | None = None) -> Sampler | None:
        """Who draws the training samples where `balanced` is set, `num_samples` in an epoch (by default as many as
        there are); None: they are shuffled."""
        if not self.balanced:
            return None
        return WeightedSampler.balanced(labels_of(dataset, "data.balanced"), num_samples=num_samples, seed=seed)

    @property
    def source(self) -> Part | None:
        """The data set that the model is learned from; where there is none, one that it is measured on."""
        return next((self.splits[split] for split in ("train", "test", "val") if split in self.splits), None)

    def transforms(self, *, training: bool) -> list[Any]:
        """The transforms for training (`train`, then `batch`), or for everything else (`eval`)."""
        stages, names = self.node.get("transforms") or {}, ("train", "batch") if training else ("eval",)
        return [build(node) for name in names for node in stages.get(name) or ()]

    def build(self, split: str, on_error: str | None = None) -> Any:
        """The data set of a split, with `on_error` (by default the section's) where it has such an argument and the
        recipe gives none."""
        part = self.splits[split]
        own = "on_error" in part.takes and "on_error" not in part
        return part.build(**({"on_error": on_error or self.on_error} if own else {}))

    def datasets(self, splits: Sequence[str] = SPLITS) -> dict[str, Any]:
        """The data set of each of these splits that the recipe has."""
        found = {split: self.build(split) for split in splits if split in self.splits}
        for split, dataset in found.items():
            if isinstance(dataset, Dataset) and len(dataset) == 0:
                raise DataError(f"data.{split}: the data set has no samples; give it some, or set data.{split}=null")
        return found


class Recipe:
    """A checked recipe.

    ConfigError with every fault for a tree that has any.
    """

    def __init__(self, tree: Config | Mapping[str, Any]) -> None:
        self.config = check(tree)
        self.task, self.model, self.optim = (Part(self.config[name]) for name in ("task", "model", "optim"))
        self.players: Mapping[str, Mapping[str, Any]] = self.config.get("players") or {}
        schedule = self.config.get("schedule")
        self.schedule = None if schedule is None else Part(schedule)
        self.data = Data(self.config["data"])
        self.settings = TrainSettings(**plain(self.config.get("train") or {}))
        self.distributed = Distributed(**plain(self.config.get("distributed") or {}))
        compress = self.config.get("compress")
        self.compress = None if compress is None else Compression(**plain(compress))

    @cached_property
    def name(self) -> str:
        """Of its file, without .yaml."""
        return self.config.path.stem if self.config.path else "run"

    def trackers(self) -> list[Tracker]:
        """The hooks that it names, made."""
        return [build(node) for node in self.config.get("hooks") or ()]

    def identity(self) -> dict[str, str]:
        """The import paths of task and model."""
        return {"task": self.task.target, "model": self.model.target}
