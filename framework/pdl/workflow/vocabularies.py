"""Vocabularies out of texts: suites know how they are learned and written.

A suite lists the kinds that it can make in `VOCAB = {"wordpiece": "pdl_nlp.tokenizers.command:write_vocabulary"}`. Such
a function is called as `writer(kind: str, files: list[Path], folder: Path, *, size: int, least: int, lower: bool,
column: str) -> dict`: it reads the texts of the files, writes the vocabulary into the folder, and returns facts for
people, that JSON can hold: `kind`, `tokens` (how many) and `files`. It raises DataError for texts that cannot be used,
and UsageError for other arguments.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pdl import suites
from pdl.errors import UsageError

Writer = Callable[..., dict[str, Any]]


def kinds() -> dict[str, str]:
    """`wordpiece` -> `module:function`, for every kind of vocabulary that an installed suite makes; the first suite's
    where several have one of the name."""
    found: dict[str, str] = {}
    for _, module in suites.modules():
        for name, where in getattr(module, "VOCAB", {}).items():
            found.setdefault(name, where)
    return found


def vocab(
    kind: str,
    files: Sequence[str | Path],
    folder: str | Path,
    *,
    size: int = 30000,
    least: int = 2,
    lower: bool = False,
    column: str = "text",
) -> dict[str, Any]:
    """Learn a vocabulary from the texts of files and write it into a folder. Returns facts: kind, tokens, files.

    files    a text a line; csv, tsv (with a header) and jsonl: the texts in `column`; each also .gz, .bz2 or .xz
    size     of the vocabulary, at most
    least    how often what becomes a token must be there
    lower    letters are lowered
    """
    known = kinds()
    if kind not in known:
        have = ", ".join(sorted(known)) or "none; no suite is installed that has one"
        raise UsageError(f"there is no kind of vocabulary {kind!r}{suites.suggest(kind, known)} (known: {have})")
    if not files:
        raise UsageError("which texts? name at least one file")
    module, _, function = known[kind].partition(":")
    writer: Writer = getattr(importlib.import_module(module), function)
    given = [Path(each) for each in files]
    return writer(kind, given, Path(folder), size=size, least=least, lower=lower, column=column)
