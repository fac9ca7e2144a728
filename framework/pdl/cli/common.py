"""Options that several commands share, and the way from arguments to a checked recipe."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from pdl.cli import style
from pdl.errors import CheckError, UsageError
from pdl.limits import bytes_in

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
STORES = ("fp32", "bf16", "fp16", "k4", "k5", "k6", "k7", "k8")
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print the result, warnings and errors alone.")]
Verbose = Annotated[
    bool, typer.Option("--verbose", "-v", help="Print more: settings, and a line every train.log_every steps.")
]
Timeout = Annotated[
    float | None,
    typer.Option(
        "--timeout",
        metavar="SECONDS",
        help="End with an error where opening the model, or a run of it, takes longer.",
        show_default=False,
    ),
]
Opening = Annotated[
    float,
    typer.Option("--timeout", metavar="SECONDS", help="End with an error where reading the file takes longer."),
]
MaxMemory = Annotated[
    int | None,
    typer.Option(
        "--max-memory",
        metavar="SIZE",
        parser=bytes_in,
        help="End with an error where a run needs more, such as 512M; by default 3/4 of the machine's memory.",
        show_default=False,
    ),
]


def require_store(store: str) -> None:
    """UsageError for a word that --store does not know."""
    if store not in STORES:
        raise UsageError(f"--store {store}: choose {' or '.join(STORES)}")


def baselines(result: Any) -> None:
    """The table of a result's baselines, the model first; nothing where there are none."""
    if result.baselines:
        from pdl.workflow.baselines import comparison

        style.out("")
        style.table(*comparison(result))


def board(found: Any, markdown: Path | None, json: bool) -> None:
    """A table of `pdl.workflow.leaderboards`: printed, and written where it is asked for. CheckError where a run
    failed."""
    from pdl.files import write_atomic

    if markdown is not None:
        write_atomic(markdown, found.markdown())
    if json:
        style.json(found.to_dict())
    else:
        style.table(found.columns(), found.cells(style.sign("±", "+-")))
        for line in found.notes:
            style.note(line)
    failed = [row.name for row in found.rows if row.failures]
    if failed:
        raise CheckError(f"failed: {', '.join(failed)}")


def recipe(path: Path | None, overrides: Sequence[str] | None, *, checked: bool = True) -> Any:
    """Load a recipe and check all of it; names that moved are noted. UsageError when no recipe is named."""
    from pdl import config
    from pdl.train.recipe import check

    words = list(overrides or ())
    if path is None:
        raise UsageError(which(words))
    loaded = config.load(path, words)
    if checked:
        check(loaded)
        for notice in loaded.notices:
            style.note(notice)
    return loaded


def which(words: Sequence[str], other: str = "") -> str:
    """The question for a recipe where none is named; a word that could be one, or a run, is put behind -c."""
    from pdl.config.named import find

    def names_one(word: str) -> bool:
        return find(word).suffix in (".yaml", ".yml") or (Path(word) / "config.yaml").is_file()

    stray = next((word for word in words if "=" not in word and names_one(word)), "RECIPE")
    return f"which recipe? write: -c {stray}{other}"


def numbers_in(option: str, given: Sequence[str], *, sizes: bool = False) -> dict[str, Any]:
    """h=224,w=224 as a dict, from one text or several; sizes are whole and above 0."""
    found: dict[str, Any] = {}
    for entry in (part for text in given for part in text.split(",") if part):
        name, _, text = entry.partition("=")
        number = _number(text)
        if not name.strip() or number is None or (sizes and not (isinstance(number, int) and number > 0)):
            example = "h=224,w=224" if sizes else "sr=16000"
            raise UsageError(f"{option} {entry!r}: expected NAME=NUMBER, as in {example}")
        found[name.strip()] = number
    return found


def _number(text: str) -> int | float | None:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return None
