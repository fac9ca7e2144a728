"""Installed task suites: which there are, where their parts lie, and how a public import path is found in them.

A suite is a distribution with an entry point in the group `pdl.suites`: its name is the suite's short name (`cv`)
and its value the import package (`pdl_cv`). What a suite offers, all of it optional:

    pdl_cv/parts/           recipe parts (package data), found by recipes as `/cv/classification`
    pdl_cv/recipes/         whole recipes, by name: `pdl train -c cv/digits_lenet`
    pdl_cv/plans/           plans by name: `pdl compress RUN --plan cv/yolov3_in_c`
    pdl_cv.MOVED            {"pdl_cv.OldName": "pdl_cv.NewName"}: old import paths that keep working
    pdl_cv.INIT             {"classification": "pdl_cv.classification.init:write_recipe"}: see pdl.workflow.new_recipe
    pdl_cv.CONVERT          {"coco": "pdl_cv.data.boxes.convert:convert"}: see pdl.workflow.converting
    pdl_nlp.VOCAB           {"words": "pdl_nlp.tokenizers.command:write_vocabulary"}: see pdl.workflow.vocabularies
    pdl_cv.models           a package; every module in it with a VARIANTS table is a model family
    pdl_cv/hub.yaml         the pretrained files it offers: see pdl.hub
"""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import inspect
import pkgutil
from collections.abc import Iterable, Iterator
from types import ModuleType
from typing import Any

from pdl import packages
from pdl.errors import ConfigError, listed
from pdl.hints import is_part

# Where pdl's own parts live; used for suggestions only.
_PDL_MODULES = ("pdl.nn", "pdl.optim", "pdl.data", "pdl.data.transforms")


Suite = packages.Package


def installed() -> dict[str, Suite]:
    """Suites that can be used, by short name; looks at metadata only. See `pdl.packages` for those that cannot."""
    return packages.installed(packages.SUITES)


def modules(inner: str = "") -> Iterator[tuple[Suite, ModuleType]]:
    """Every suite with its imported package (or a module inside, where it has that); those whose import fails are told
    of, and left out.
    """
    for suite in installed().values():
        try:
            if inner and importlib.util.find_spec(f"{suite.module().__name__}.{inner}") is None:
                continue
            yield suite, suite.module(inner)
        except ConfigError:  # told by `module`
            continue


def roots() -> list[str]:
    """Import packages whose parts a config may name."""
    return ["pdl", *(suite.package for suite in installed().values())]


def moved(target: str) -> str | None:
    """The present import path of one that moved, or None. An entry moves the path itself and everything below it."""
    root = target.partition(".")[0]
    if root not in roots():
        return None
    try:
        table = getattr(_root(root), "MOVED", {})
    except ConfigError:  # `locate` says so
        return None
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
    found: Any = _root(names[0])
    for depth, name in enumerate(names[1:], start=1):
        found = _member(found, name, ".".join(names[:depth]), target)
    if inspect.isfunction(found) and not is_part(found):
        raise ConfigError(
            f"{target!r} is a function that is not declared as a part (@pdl.hints.part), so a config cannot call it"
        )
    if not _is_part(found):
        raise ConfigError(f"{target!r} is not a class or part of {_either(roots())}, so a config cannot build it")
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
    for suite, package in modules("models"):
        for info in sorted(pkgutil.iter_modules(getattr(package, "__path__", ())), key=lambda i: i.name):
            try:
                module = suite.module(f"models.{info.name}")
            except ConfigError:  # told by `module`; the other families work
                continue
            if hasattr(module, "VARIANTS"):
                yield suite, module


def _root(name: str, inner: str = "") -> ModuleType:
    """pdl or the package of a suite, or a module inside it, imported; ConfigError where that of a suite fails."""
    suite = next((each for each in installed().values() if each.package == name), None)
    return suite.module(inner) if suite else importlib.import_module(f"{name}.{inner}".rstrip("."))


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
        root, _, inner = f"{prefix}.{name}".partition(".")
        return _root(root, inner)
    raise ConfigError(_unknown_name(owner, name, prefix, target))


def _is_part(found: Any) -> bool:
    """A class that pdl or a suite defines, or a function that they declare as a part. Which classes may stand in which
    place is for `pdl.config.allowed` to say."""
    if not inspect.isclass(found) and not (inspect.isfunction(found) and is_part(found)):
        return False
    return found.__module__.partition(".")[0] in roots()


def _unknown_root(target: str, root: str) -> str:
    unusable = [each for each in packages.left_out(packages.SUITES) if root in each.claims]
    if unusable:
        return f"{target!r}: {unusable[0]}"
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
    return f"; it has: {listed(sorted(names), 12)}"


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
