"""The top level of a recipe, as a dataclass: its fields are the keys, its annotations what they may hold."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from pdl.config.signature import SECTION, Supplied
from pdl.data import Dataset, IterableDataset, Transform
from pdl.hints import Range
from pdl.nn import Module
from pdl.optim import Optimizer, Schedule
from pdl.train import Task
from pdl.train.settings import TrainSettings


@dataclass
class Transforms:
    """Lists of transforms: on training samples, on evaluation samples, and on whole training batches."""

    train: list[Transform] = field(default_factory=list)
    eval: list[Transform] = field(default_factory=list)
    batch: list[Transform] = field(default_factory=list)


@dataclass
class DataSettings:
    """The `data` section: data sets by split, what is done to their samples, and how they are loaded."""

    train: Dataset | IterableDataset
    val: Dataset | IterableDataset | None = None
    test: Dataset | IterableDataset | None = None
    transforms: Annotated[Transforms, SECTION] = field(default_factory=Transforms)
    batch_size: Annotated[int, Range(1)] = 32
    eval_batch_size: Annotated[int, Range(1)] | None = None
    workers: Annotated[int, Range(0)] = 0
    prefetch: Annotated[int, Range(1)] = 2
    drop_last: bool = False
    on_error: Literal["error", "skip"] = "error"


@dataclass
class Recipe:
    """What `pdl train -c` reads."""

    task: Task
    model: Module
    data: Annotated[DataSettings, SECTION]
    optim: Annotated[Optimizer, Supplied("params")]
    schedule: Schedule | None = None
    train: Annotated[TrainSettings, SECTION] = field(default_factory=TrainSettings)
