"""What there is to use: the pretrained files of the index, and the models of the installed suites (the VARIANTS tables
of their families).
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pdl.config.parts import variants
from pdl.errors import UsageError
from pdl.hub.entries import Entry, System
from pdl.hub.index import entry, index
from pdl.hub.systems import system, systems


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
    return [model for model in _models() if matches(pattern, model.name) and task in (None, model.task)]


def pretrained(pattern: str = "*", *, task: str | None = None) -> list[Entry]:
    """The entries of the index, chosen in the same way by full name."""
    return [each for each in index().values() if matches(pattern, each.name) and task in (None, each.task)]


def combined(pattern: str = "*", *, task: str | None = None) -> list[System]:
    """The systems of the index, chosen in the same way."""
    return [each for each in systems().values() if matches(pattern, each.name) and task in (None, each.task)]


def select(names: Iterable[str]) -> list[Entry]:
    """The entries that are meant by names and patterns, each once; a system means its parts. UsageError for what means
    none."""
    found: dict[str, Entry] = {}
    for name in names:
        whole = system(name)
        if is_pattern(name):
            meant = pretrained(name)
        else:
            meant = [entry(part) for part in whole.parts.values()] if whole else [entry(name)]
        if not meant:
            raise UsageError(f"{name!r}: no pretrained model has such a name; `pdl models` lists what there is")
        found |= {each.name: each for each in meant}
    return list(found.values())


def is_pattern(text: str) -> bool:
    """Whether * and the like stand for other letters."""
    return any(sign in text for sign in "*?[")


def matches(pattern: str, name: str) -> bool:
    """Whether a name is meant by a pattern, or has this text in it; capitals do not matter."""
    wanted = pattern.lower() if is_pattern(pattern) else f"*{pattern.lower()}*"
    return fnmatch.fnmatchcase(name.lower(), wanted)


def _models() -> Iterator[Model]:
    for each in variants():
        arguments = ", ".join(f"{key}: {value}" for key, value in each.arguments.items())
        yield Model(each.name, each.suite, each.family, each.task, each.target, arguments)
