"""Options that several commands share, and the way from arguments to a checked recipe."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from pdl.cli import style
from pdl.errors import PdlError, UsageError

Recipe = Annotated[
    Path | None,
    typer.Option(
        "--config", "-c", metavar="RECIPE", help="The recipe: a YAML file, a name (`pdl config list`), or a run folder."
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="OVERRIDES", help="Settings in hydra's grammar: train.epochs=3  +key=value  ~key", show_default=False
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


class Interrupted(PdlError):
    """The user pressed Ctrl-C; the message says how to go on."""

    exit_code = 130


def recipe(path: Path | None, overrides: Sequence[str] | None, *, checked: bool = True) -> Any:
    """Load a recipe and check it whole; tells of names that moved. UsageError when no recipe is named."""
    from pdl import config

    words = list(overrides or ())
    if path is None:
        stray = next((word for word in words if word.endswith((".yaml", ".yml"))), None)
        raise UsageError(f"which recipe? write: -c {stray or 'RECIPE'}")
    loaded = config.load(path, words)
    if checked:
        config.check(loaded)
        for notice in loaded.notices:
            style.note(notice)
    return loaded
