"""Installed task suites: which there are, where their parts lie, and how a public import path is found in them.

A suite is a distribution with an entry point in the group `pdl.suites`: its name is the suite's short name (`cv`)
and its value the import package (`pdl_cv`). What a suite offers, all of it optional:

    pdl_cv/parts/           recipe parts (package data), found by recipes as `/cv/classification`
    pdl_cv.MOVED            {"pdl_cv.OldName": "pdl_cv.NewName"}: old import paths that keep working
    pdl_cv.INIT             {"classification": "pdl_cv.classification.init:write_recipe"}: see pdl.config.init
    pdl_cv.models           a package; every module in it with a VARIANTS table (and a WEIGHTS table) is a model family
"""

from __future__ import annotations

import difflib
import functools
import importlib
import importlib.metadata
import importlib.util
import inspect
import pkgutil
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from pdl.errors import ConfigError

ENTRY_POINTS = "pdl.suites"
# Where pdl's own parts live; used for suggestions only.
_PDL_MODULES = ("pdl.nn", "pdl.optim", "pdl.data", "pdl.data.transforms")


@dataclass(frozen=True)
class Suite:
    """One installed suite: short name, import package, version, and the folder of the package."""

    name: str
    package: str
    version: str
    folder: Path

    @property
    def parts(self) -> Path:
        """The folder of recipe parts."""
        return self.folder / "parts"

    def module(self) -> ModuleType:
        """The imported package."""
        return importlib.import_module(self.package)


@functools.cache
def installed() -> dict[str, Suite]:
    """Installed suites by short name. Looks at metadata only: no suite is imported."""
    found = {}
    for entry in sorted(importlib.metadata.entry_points(group=ENTRY_POINTS), key=lambda e: e.name):
        spec = importlib.util.find_spec(entry.value)
        if spec is None or not spec.submodule_search_locations:
            continue
        version = entry.dist.version if entry.dist else "unknown"
        found[entry.name] = Suite(entry.name, entry.value, version, Path(next(iter(spec.submodule_search_locations))))
    return found


def roots() -> list[str]:
    """Import packages whose parts a config may name."""
    return ["pdl", *(suite.package for suite in installed().values())]


def moved(target: str) -> str | None:
    """The present import path of one that moved, or None. An entry moves the path itself and everything below it."""
    root = target.partition(".")[0]
    if root not in roots():
        return None
    table = getattr(importlib.import_module(root), "MOVED", {})
    for old, new in table.items():
        if target == old or target.startswith(old + "."):
            return str(new) + target[len(old) :]
    return None


def locate(target: str) -> Any:
    """The class or function at a public import path such as `pdl_cv.LeNet`.

    Only names that pdl and the installed suites define are found: a config file must not reach the rest of Python.
    Raises ConfigError that says what is wrong and what was probably meant.
    """
    names = target.split(".")
    if not all(name.isidentifier() for name in names) or len(names) < 2:
        raise ConfigError(f"{target!r} is not an import path like 'pdl_cv.LeNet'")
    if names[0] not in roots():
        raise ConfigError(_unknown_root(target, names[0]))
    if any(name.startswith("_") for name in names):
        raise ConfigError(f"{target!r} names something private; only public names of {_either(roots())} are allowed")
    found: Any = importlib.import_module(names[0])
    for depth, name in enumerate(names[1:], start=1):
        found = _member(found, name, ".".join(names[:depth]), target)
    if not _is_part(found):
        raise ConfigError(f"{target!r} is not a class or function of {_either(roots())}, so a config cannot build it")
    return found


def suggest(word: str, known: Iterable[str], *, quote: str = "'") -> str:
    """`; did you mean 'x'?` for the closest of `known`, or an empty string."""
    lower = {name.lower(): name for name in known}
    close = difflib.get_close_matches(word.lower(), lower, n=1, cutoff=0.6)
    return f"; did you mean {quote}{lower[close[0]]}{quote}?" if close else ""


def public_names(module: ModuleType) -> list[str]:
    """Names a config may use from this module."""
    names = getattr(module, "__all__", None) or [name for name in dir(module) if not name.startswith("_")]
    return [name for name in names if _is_part(getattr(module, name, None))]


def model_families() -> Iterator[tuple[Suite, ModuleType]]:
    """Every model family of every suite: the modules of `<suite>.models` that have a VARIANTS table."""
    for suite in installed().values():
        if importlib.util.find_spec(f"{suite.package}.models") is None:
            continue
        package = importlib.import_module(f"{suite.package}.models")
        for info in sorted(pkgutil.iter_modules(package.__path__), key=lambda i: i.name):
            module = importlib.import_module(f"{package.__name__}.{info.name}")
            if hasattr(module, "VARIANTS"):
                yield suite, module


def _member(owner: Any, name: str, prefix: str, target: str) -> Any:
    if hasattr(owner, name):
        found = getattr(owner, name)
        if inspect.ismodule(found) and found.__name__.partition(".")[0] not in roots():
            raise ConfigError(
                f"{target!r} leads outside {_either(roots())} (to {found.__name__}), which a config may not do"
            )
        return found
    if (
        inspect.ismodule(owner)
        and hasattr(owner, "__path__")
        and importlib.util.find_spec(f"{prefix}.{name}") is not None
    ):
        return importlib.import_module(f"{prefix}.{name}")
    raise ConfigError(_unknown_name(owner, name, prefix, target))


def _is_part(found: Any) -> bool:
    """A class, or a function, that pdl or a suite defines."""
    if not (inspect.isclass(found) or inspect.isfunction(found)):
        return False
    return found.__module__.partition(".")[0] in roots()


def _unknown_root(target: str, root: str) -> str:
    names = [suite.package for suite in installed().values()]
    have = f"installed suites: {', '.join(names)}" if names else "no suite is installed"
    close = difflib.get_close_matches(root.removeprefix("pdl_"), [name.removeprefix("pdl_") for name in names], n=1)
    hint = f"; did you mean 'pdl_{close[0]}'?" if close else ""
    if not hint and root.startswith("pdl_"):
        hint = f"; `pip install {root.replace('_', '-')}` may bring it"
    return f"{target!r} is refused: a config may only name parts of pdl and of installed suites ({have}){hint}"


def _unknown_name(owner: Any, name: str, prefix: str, target: str) -> str:
    siblings = {f"{prefix}.{public}": public for public in (public_names(owner) if inspect.ismodule(owner) else ())}
    everywhere = _public_paths()
    same = [path for path in everywhere if path.rpartition(".")[2].lower() == target.rpartition(".")[2].lower()]
    if same:
        return f"{target!r} does not exist; did you mean '{same[0]}'?"
    hint = suggest(target, [*siblings, *everywhere]) or _known(prefix, list(siblings.values()))
    return f"{target!r} does not exist: {prefix} has no {name!r}{hint}"


def _known(prefix: str, names: list[str]) -> str:
    if not names:
        return ""
    shown = ", ".join(sorted(names)[:12]) + (", ..." if len(names) > 12 else "")
    return f"; it has: {shown}"


def _public_paths() -> list[str]:
    """Import paths of all parts, for suggestions: pdl's own and those one level down in each suite. Slow; for
    errors only.
    """
    modules = [*_PDL_MODULES]
    for suite in installed().values():
        inner = (info.name for info in pkgutil.iter_modules([str(suite.folder)]) if not info.name.startswith("_"))
        modules += [suite.package, *(f"{suite.package}.{name}" for name in inner)]
    return [f"{name}.{part}" for name in modules for part in public_names(_import_or_empty(name))]


def _import_or_empty(name: str) -> ModuleType:
    """A module, or an empty one where the import fails: a suggestion must not bring an error of its own."""
    try:
        return importlib.import_module(name)
    except Exception:
        return ModuleType(name)


def _either(names: list[str]) -> str:
    return " or ".join([", ".join(names[:-1]), names[-1]] if len(names) > 1 else names)
