"""Recipes by name: those that the installed suites ship, such as `cv/digits_lenet`."""

from __future__ import annotations

import re
from pathlib import Path

from pdl import suites
from pdl.files import read_text


def shipped() -> dict[str, Path]:
    """Every recipe of the installed suites by its full name, in the order of suites and names."""
    return {
        f"{suite.name}/{file.relative_to(suite.recipes).with_suffix('').as_posix()}": file
        for suite in suites.installed().values()
        for file in sorted(suite.recipes.rglob("*.yaml"))
    }


def find(given: str | Path) -> Path:
    """The file that is meant by a path, or by a name: `cv/digits_lenet`, or `digits_lenet` where one suite only has it.

    A path that exists comes before a name. What is neither is returned as it is, and refused by its reader.
    """
    path = Path(given)
    if path.exists() or path.suffix:
        return path
    known = shipped()
    same = [name for name in known if name == path.as_posix() or name.rpartition("/")[2] == path.as_posix()]
    return known[same[0]] if len(same) == 1 else path


def name_of(file: Path) -> str | None:
    """The name of a shipped recipe; None for any other file."""
    there = file.resolve()
    return next((name for name, path in shipped().items() if path.resolve() == there), None)


def hint(path: Path) -> str:
    """What a suite ships that is probably meant by a file that is not there; empty where nothing is like it."""
    known = shipped()
    wanted = path.with_suffix("").as_posix() if path.suffix else path.as_posix()
    same = [name for name in known if name.rpartition("/")[2] == wanted.rpartition("/")[2]]
    if same:
        return f"; an installed suite ships one of that name: {' or '.join(f'-c {name}' for name in same)}"
    close = suites.suggest("/".join(Path(wanted).parts[-2:]), known)
    return close or ("" if path.suffix or not known else "; `pdl config list` shows the recipes that have names")


#: up to a full stop, colon or semicolon that ends a word; not those in brackets, nor that of an initial
_SENTENCE = re.compile(r"(?:[^.:;()]|\([^()]*\)|(?<=\b[A-Z])\.|[.:;](?!\s|$)|[()])*")


def summary(file: Path) -> str:
    """The first sentence of the comment that a recipe begins with."""
    lines = read_text(file).splitlines()
    head: list[str] = []
    for line in lines:
        if not line.startswith("#"):
            break
        head.append(line.lstrip("# ").strip())
    return _SENTENCE.match(" ".join(head))[0]  # type: ignore[index]  # it matches nothing, too
