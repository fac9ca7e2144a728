"""The parts that recipes can name, by kind, and their short names: `model: resnet18`, `optim: {_target_: sgd}`.

A short name is that of a class in small letters (`OneCycle` is one_cycle; capitals and _ do not matter when it is
read), or that of a model's variant (resnet18 is pdl_cv.ResNet with depth 18). What pdl itself has comes first; a name
that several suites give to different classes is ambiguous, and means none of them.
"""

from __future__ import annotations

import functools
import importlib
import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from typing import Any

from pdl import suites
from pdl.config.signature import TARGET
from pdl.config.tree import MISSING
from pdl.config.words import name_of
from pdl.errors import ConfigError, listed


@dataclass(frozen=True)
class Kind:
    """A kind of part: base classes, and the modules of pdl and of every suite that have such parts ("" is the suite's
    own package)."""

    bases: tuple[str, ...]
    own: tuple[str, ...] = ()
    inner: tuple[str, ...] = ("",)


KINDS = {
    "models": Kind(("pdl.nn.Module",)),
    "layers": Kind(("pdl.nn.Module",), ("pdl.nn",), ()),
    "tasks": Kind(("pdl.train.Task",)),
    "datasets": Kind(("pdl.data.Dataset", "pdl.data.IterableDataset"), ("pdl.data",), ("", "data")),
    "transforms": Kind(("pdl.data.Transform",), ("pdl.data", "pdl.data.transforms")),
    "optimizers": Kind(("pdl.optim.Optimizer",), ("pdl.optim",)),
    "schedules": Kind(("pdl.optim.Schedule",), ("pdl.optim",)),
    "losses": Kind(("pdl.nn.loss.Loss",), ("pdl.nn",)),
    "metrics": Kind(("pdl.train.metrics.Metric",), ("pdl.train.metrics",), ("metrics",)),
}
SECTIONS: dict[tuple[str | int, ...], str] = {
    ("task",): "tasks", ("model",): "models", ("optim",): "optimizers", ("schedule",): "schedules",
    ("data", "train"): "datasets", ("data", "val"): "datasets", ("data", "test"): "datasets",
}  # fmt: skip
"""Where a recipe has which kind."""


@dataclass(frozen=True)
class Named:
    """What a short name stands for: a class by its import path, and the arguments of a variant, with the suite, the
    family and the task that it belongs to."""

    name: str
    target: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    suite: str = ""
    family: str = ""
    task: str = ""

    @property
    def summary(self) -> str:
        """The first sentence of the class's docstring."""
        text = " ".join((inspect.getdoc(suites.locate(self.target)) or "").split("\n\n")[0].split())
        return re.split(r"(?<=[^.][a-z0-9)\]])[.:;] ", text + " ")[0].rstrip(" .:;")

    def node(self, given: Mapping[str, Any] = {}) -> dict[str, Any]:
        """What a recipe would write in full; the given arguments win over those of a variant."""
        rest = {key: value for key, value in given.items() if key != TARGET}
        return {TARGET: self.target, **self.arguments, **rest}


def parts(kind: str, pattern: str = "*") -> list[Named]:
    """The parts of a kind whose short name has a text in it, or matches a pattern with * and ?; ConfigError for a kind
    that is none."""
    if kind not in KINDS:
        raise ConfigError(f"{kind!r} is no kind of part{suites.suggest(kind, KINDS)}; kinds: {', '.join(KINDS)}")
    wanted = pattern.lower() if set(pattern) & set("*?[") else f"*{pattern.lower()}*"
    found = variants() if kind == "models" else _classes(kind)
    return sorted((each for each in found if fnmatchcase(each.name, wanted)), key=lambda each: each.name)


def find(word: str, kind: str | None = None, base: type = object) -> Named:
    """What a short name stands for, among the parts of a kind, or among all that inherit from a class.

    ConfigError where nothing has that name, with what was probably meant, or where several things have it.
    """
    known: dict[str, Named] = {}
    for source in _sources(kind):
        fitting = [each for each in source() if issubclass(suites.locate(each.target), base)]
        exact = [each for each in fitting if _plain(word) == _plain(each.name)]
        same = {each.target: each for each in exact or fitting if exact or _plain(word) == _class_name(each)}
        if len(same) > 1:
            raise ConfigError(f"{word!r} may be {' or '.join(same)}; write the one that is meant")
        if same:
            return next(iter(same.values()))
        known |= {each.name: each for each in fitting}
    hint = suites.suggest(word, known)
    if kind is None and base is object:
        raise ConfigError(f"no part has the short name {word!r}{hint}; `pdl list` shows what there is")
    what, more = (kind, f" (`pdl list {kind}` shows all)") if kind else (f"parts of the class {name_of(base)}", "")
    hint = hint or f"; there are: {listed(sorted(known), 12)}"
    raise ConfigError(f"nothing among the {what} is called {word!r}{hint}{more}")


def is_short(target: Any) -> bool:
    """Whether a `_target_` is no import path."""
    return isinstance(target, str) and target != MISSING and "." not in target and "${" not in target


def short_name(cls: type, kind: str = "") -> str:
    """`OneCycle` -> one_cycle; of a loss without the word loss."""
    name = cls.__name__.removesuffix("Loss") if kind == "losses" else cls.__name__
    if name == "RMSprop":
        return "rmsprop"
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z][a-z0-9]|[A-Z]{2})|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def _sources(kind: str | None) -> list[Any]:
    """Functions that give parts, those that are looked into first first."""
    if kind is None:
        return [functools.partial(_classes, each) for each in KINDS if each != "models"] + [variants]
    own = functools.partial(_classes, kind, installed=False)
    return [*([variants] if kind == "models" else []), own, functools.partial(_classes, kind)]


def _class_name(part: Named) -> str:
    """Another way to write a short name: that of the class, of a loss with the word loss. Variants have none."""
    return "" if part.arguments else _plain(part.target.rpartition(".")[2])


def _plain(word: str) -> str:
    return word.replace("_", "").replace("-", "").lower()


def variants() -> list[Named]:
    """The models of the suites' VARIANTS tables, in their order. An entry holds the keywords of the family's class:
    {"_target_": ..., "depth": 18}; without `_target_`, the function or class of the entry's name is meant.
    """
    found = []
    for suite, family in suites.model_families():
        for name, variant in family.VARIANTS.items():
            given: dict[str, Any] = {k: list(v) if isinstance(v, tuple) else v for k, v in dict(variant).items()}
            target, task = given.pop(TARGET, f"{suite.package}.{name}"), given.pop("task", None)
            module = family.__name__.rpartition(".")[2]
            found.append(Named(name, target, given, suite.name, module, task or getattr(family, "TASK", "")))
    return found


def _classes(kind: str, *, installed: bool = True) -> list[Named]:
    """Those of pdl, and with `installed` those of the suites."""
    found: dict[type, Named] = {}
    for path, cls in _public(kind, installed):
        if cls not in found or len(path) < len(found[cls].target):
            found[cls] = Named(short_name(cls, kind), path)
    return list(found.values())


def _public(kind: str, installed: bool) -> Iterator[tuple[str, type]]:
    """Import path and class of every part of a kind that can be built."""
    about = KINDS[kind]
    bases = tuple(suites.locate(path) for path in about.bases)
    modules = [importlib.import_module(name) for name in about.own]
    if installed:
        modules += [module for inner in about.inner for _, module in suites.modules(inner)]
    for module in modules:
        for name in suites.public_names(module):
            cls = getattr(module, name)
            if inspect.isclass(cls) and _fits(cls, kind, bases):
                yield f"{module.__name__}.{name}", cls


def _fits(cls: type, kind: str, bases: tuple[type, ...]) -> bool:
    """Whether a class is a part of a kind, and no base of others. Losses of suites have bases of their own, whose names
    end in Loss."""
    if cls in bases or inspect.isabstract(cls) or cls.__module__.rpartition(".")[2] == "base":
        return False
    is_loss = any(each.__name__.endswith("Loss") for each in cls.__mro__[1:])
    return is_loss if kind == "losses" else issubclass(cls, bases) and not (kind == "layers" and is_loss)
