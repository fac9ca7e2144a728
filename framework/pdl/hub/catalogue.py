"""The models of the installed suites: the VARIANTS tables of their families, as one list."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from pdl import suites


@dataclass(frozen=True)
class Model:
    """One variant: its name, the task it is made for, and what a recipe writes to get it."""

    name: str
    suite: str
    family: str
    task: str
    target: str
    arguments: str


def catalogue(pattern: str = "*", *, task: str | None = None) -> list[Model]:
    """Models whose name matches a part of a name or a pattern with * and ?, ordered by suite, family and table."""
    wanted = pattern.lower() if any(sign in pattern for sign in "*?[") else f"*{pattern.lower()}*"
    return [
        model for model in _models() if fnmatch.fnmatchcase(model.name.lower(), wanted) and task in (None, model.task)
    ]


def _models() -> Iterator[Model]:
    for suite, family in suites.model_families():
        for name, variant in family.VARIANTS.items():
            yield _model(suite, family, name, variant)


def _model(suite: suites.Suite, family: ModuleType, name: str, variant: Any) -> Model:
    """A VARIANTS entry is the keywords of the family's class: {"_target_": ..., "depth": 18}; without `_target_`,
    `pretrained=` style factories named like the variant are meant.
    """
    given = dict(variant) if isinstance(variant, Mapping) else {}
    target = given.pop("_target_", f"{suite.package}.{name}")
    arguments = ", ".join(
        f"{key}: {list(value) if isinstance(value, tuple) else value}" for key, value in given.items()
    )
    task = given.pop("task", None) or getattr(family, "TASK", "")
    return Model(name, suite.name, family.__name__.rpartition(".")[2], task, target, arguments)
