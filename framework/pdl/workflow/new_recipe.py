"""New recipes: a suite knows how to write one for the user's data.

A suite lists its writers in `INIT = {"classification": "pdl_cv.classification.init:write_recipe"}`. A writer is
called as `writer(data: Path) -> str`: it looks at the data and returns the text of a recipe that trains unedited;
it raises DataError when the data cannot be used, and UsageError for data of another shape. It writes no file. The
comment that the text begins with says what was found and why it was learned so; `pdl init` prints it.

A writer may have options of its own: keyword arguments that are a text or None, each annotated with its
`pdl.runtime.steps.Flag`. One that can do without data has None as the default of `data`.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_type_hints

from pdl import suites
from pdl.config.compose import load
from pdl.config.tree import shown
from pdl.errors import ConfigError, UsageError
from pdl.files import replacing
from pdl.runtime.steps import Flag
from pdl.train.recipe import check

Writer = Callable[..., str]


def writers() -> dict[str, str]:
    """`cv.classification` -> `module:function`, for every task that an installed suite can write a recipe for."""
    found = {}
    for suite, module in suites.modules():
        for task, where in getattr(module, "INIT", {}).items():
            found[f"{suite.name}.{task}"] = where
    return found


def options(task: str) -> dict[str, Flag]:
    """The options of a task's writer, by the names of its arguments. UsageError for a task that has none to write."""
    writer = _writer(task)
    if all(each.kind is not each.KEYWORD_ONLY for each in inspect.signature(writer).parameters.values()):
        return {}
    hints: Mapping[str, Any] = get_type_hints(writer, include_extras=True)
    found = {name: getattr(hint, "__metadata__", ()) for name, hint in hints.items()}
    return {name: flag for name, more in found.items() for flag in more if isinstance(flag, Flag)}


def init(
    task: str,
    *,
    data: str | Path | None = None,
    out: str | Path = "recipe.yaml",
    force: bool = False,
    **chosen: str,
) -> Path:
    """Write a recipe for `task` (`cv.classification`) on the data in a folder or file, check it, and return its path.

    An existing file is kept unless `force`; a recipe that does not pass the check is not left behind. `chosen` are
    `options` of the task.
    """
    target = Path(out)
    if target.suffix != ".yaml":
        raise UsageError(f"{shown(target)}: a recipe's name ends in .yaml")
    if target.exists() and not force:
        raise UsageError(f"{shown(target)} exists; give another name with --out, or --force to replace it")
    writer, known = _writer(task), options(task)
    if unknown := [name for name in chosen if name not in known]:
        have = ", ".join(known) or "no options"
        raise UsageError(f"{task} has no option {unknown[0]!r}{suites.suggest(unknown[0], known)} (it has {have})")
    if data is None and inspect.signature(writer).parameters["data"].default is inspect.Parameter.empty:
        raise UsageError(f"--data names the folder or file your data lies in: pdl init {task} --data PATH")
    place = None if data is None else Path(data)
    if place is not None and not place.exists():
        raise UsageError(f"{shown(place)}: no such file or folder; --data names what your data lies in")
    text = writer(place, **chosen)
    with replacing(target) as draft:
        draft.write_text(text, encoding="utf-8")
        _judge(task, draft)
    return target


def _judge(task: str, draft: Path) -> None:
    try:
        check(load(draft))
    except ConfigError as error:
        problems = "; ".join(problem.partition(": ")[2] for problem in error.problems)
        raise ConfigError(
            f"the recipe that the writer of {task} makes for this data is not good: {problems}"
        ) from error


def _writer(task: str) -> Writer:
    known = writers()
    if task not in known:
        have = ", ".join(sorted(known)) or "none; no suite is installed"
        hint = suites.suggest(task, known) or ("" if "." in task else f"; for a new suite: pdl init suite {task}")
        raise UsageError(f"there is no recipe writer {task!r}{hint} (known: {have})")
    module, _, function = known[task].partition(":")
    writer: Writer = getattr(importlib.import_module(module), function)
    return writer
