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

MODULES = ["pdl.nn", "pdl.optim", "pdl.data", "pdl.data.transforms"]
PARTS = [f"{module}.{name}" for module in MODULES for name in suites.public_names(importlib.import_module(module))]


KINDS = (nn.Module, Optimizer, Schedule, Dataset, IterableDataset, Transform, Task)


def _judge(path: str) -> None:
    part = suites.locate(path)
    if not (inspect.isclass(part) and issubclass(part, KINDS)):
        return
    written = inspect.signature(part).parameters
    for name, argument in signature(part).arguments.items():
        if name == "params":  # never in a recipe
            continue
        annotation = written[name].annotation
        assert argument.hint is not Any or annotation in ("Any", Any, inspect.Parameter.empty), f"{path}: {annotation}"
        assert describe(argument.hint)


@pytest.mark.parametrize("path", PARTS)
def test_annotations_can_be_resolved(path: str) -> None:
    _judge(path)


def test_annotations_of_suites_can_be_resolved() -> None:
    for suite in suites.installed().values():
        for name in suites.public_names(suite.module()):
            _judge(f"{suite.package}.{name}")


def test_yaml_of_nothing() -> None:
    assert to_yaml({}) == "{}\n"
