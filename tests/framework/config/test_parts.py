"""Every part that a recipe can name has a signature that the check can read."""

from __future__ import annotations

import importlib
import inspect
from typing import Any

import pytest

from pdl import nn, suites
from pdl.config.signature import signature
from pdl.config.text import to_yaml
from pdl.config.words import describe
from pdl.data import Dataset, IterableDataset, Transform
from pdl.optim import Optimizer, Schedule
from pdl.train import Task

KINDS = (nn.Module, Optimizer, Schedule, Dataset, IterableDataset, Transform, Task)
SUITES = [suite.package for suite in suites.installed().values()]
PARTS = {
    f"{module}.{name}": part
    for module in ("pdl.nn", "pdl.optim", "pdl.data", "pdl.data.transforms", *SUITES)
    for name in suites.public_names(importlib.import_module(module))
    if inspect.isclass(part := suites.locate(f"{module}.{name}")) and issubclass(part, KINDS)
}


def test_every_module_has_parts() -> None:
    assert len(SUITES) >= 5
    assert {path.rpartition(".")[0] for path in PARTS} >= {"pdl.nn", "pdl.optim", "pdl.data", "pdl.data.transforms"}


@pytest.mark.parametrize("path", PARTS)
def test_annotations_can_be_resolved(path: str) -> None:
    written = inspect.signature(PARTS[path]).parameters
    for name, argument in signature(PARTS[path]).arguments.items():
        if name == "params" or name not in written:  # never in a recipe; inherited, and seen above
            continue
        annotation = written[name].annotation
        assert argument.hint is not Any or annotation in ("Any", Any, inspect.Parameter.empty), f"{path}: {annotation}"
        assert describe(argument.hint)


def test_yaml_of_nothing() -> None:
    assert to_yaml({}) == "{}\n"
