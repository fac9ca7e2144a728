"""New suites: the folder `template/` with a name of one's own.

The template is a suite that works (a tiny task, with model, data set, recipe and tests), called `newsuite`; its
files are linted where they lie, and tested under another name.
"""

from __future__ import annotations

import keyword
import re
import shutil
from pathlib import Path

from pdl import packages, suites
from pdl.config.tree import shown
from pdl.errors import UsageError
from pdl.files import write_atomic

TEMPLATE = Path(__file__).with_name("template")
NAME = "newsuite"


def new_suite(name: str, out: str | Path | None = None) -> Path:
    """Write a suite called `name` into the folder `out`, by default pdl-NAME, which must not be there yet or be empty.

    audio gives the distribution pdl-audio with the import package pdl_audio; dashes of a name are underscores where
    Python wants them. Returns the folder.
    """
    short = _checked(name)
    target = Path(out) if out is not None else Path(f"pdl-{short.replace('_', '-')}")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UsageError(f"{shown(target)} exists; give another folder with --out")
    kept = target.exists()
    try:
        for file in sorted(TEMPLATE.rglob("*")):
            if file.is_file() and "__pycache__" not in file.parts:
                place = target / file.relative_to(TEMPLATE).as_posix().replace(NAME, short)
                write_atomic(place, _renamed(file.read_text(encoding="utf-8"), short))
    except OSError:
        if not kept:
            shutil.rmtree(target, ignore_errors=True)
        raise
    return target


def _renamed(text: str, short: str) -> str:
    """The text of a template file with the suite's name, and with the versions of pdl that it is written for."""
    text = text.replace(f'"{packages.CORE}[train]"', f'"{packages.CORE}[train]{packages.series()}"')
    return text.replace(f"pdl-{NAME}", f"pdl-{short.replace('_', '-')}").replace(NAME, short)


def _checked(name: str) -> str:
    """The short name: lower case, words joined by underscores; UsageError for what cannot be one."""
    short = re.sub(r"^pdl[-_]", "", name).replace("-", "_")
    if not re.fullmatch(r"[a-z][a-z0-9]*(_[a-z0-9]+)*", short) or keyword.iskeyword(short) or short == NAME:
        lower = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-0123456789")
        hint = f"; for example {lower}" if lower and lower != name else ""
        rule = "lower-case letters, digits and dashes, a letter first"
        raise UsageError(f"{name!r} is no name for a suite: {rule}{hint}")
    if f"pdl-{short}" == packages.CORE:
        raise UsageError(f"{packages.CORE} is the framework itself; choose another name")
    taken = suites.installed().get(short)
    if taken is not None:
        raise UsageError(f"the suite {short!r} is installed ({taken.distribution} {taken.version}); choose another")
    if any(each.name == short for each in packages.left_out(packages.SUITES)):
        raise UsageError(f"the name {short!r} is taken by an installed suite; `pdl info` shows it; choose another")
    return short
