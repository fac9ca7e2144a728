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
STORES = ("fp32", "bf16", "fp16")
Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]


def located(word: str) -> Path:
    """The run folder or bundle that a word means: what lies at that path, else the bundle behind a name of the hub,
    which is fetched (and built) when it is first used.

    UsageError, with suggestions, for a word that is neither.
    """
    path = Path(word).expanduser()
    if path.is_dir():
        return path
    from pdl import hub
    from pdl.export import bundle_of
    from pdl.hub.systems import systems

    if not path.is_file() and _means_a_path(word, path) and word not in {*hub.index(), *systems()}:
        from pdl.suites import suggest

        beside = [str(path.parent / each.name) for each in path.parent.iterdir()] if path.parent.is_dir() else []
        hint = suggest(str(path), beside) or "; `pdl train` writes run folders, by default below runs/"
        raise UsageError(f"{word}: no such run folder or bundle{hint}")
    return bundle_of(path if path.is_file() else word)


def _means_a_path(word: str, path: Path) -> bool:
    """Whether a word that is no file here cannot be a name: it has the form of a path, or begins with a folder."""
    looks = path.is_absolute() or word.startswith((".", "~")) or word.count("/") > 1 or path.suffix in (".pdl", ".onnx")
    return looks or (path.parent != Path() and path.parent.is_dir())


def demand_store(store: str) -> None:
    """UsageError for a word that --store does not know."""
    if store not in STORES:
        raise UsageError(f"--store {store}: choose {' or '.join(STORES)}")


def baselines(result: Any) -> None:
    """The table of a result's baselines, the model first; nothing where there are none."""
    if result.baselines:
        from pdl.workflow.baselines import comparison

        style.out("")
        style.table(*comparison(result))


class Interrupted(PdlError):
    """The user pressed Ctrl-C; the message says how to go on."""

    exit_code = 130


def recipe(path: Path | None, overrides: Sequence[str] | None, *, checked: bool = True) -> Any:
    """Load a recipe and check it whole; tells of names that moved. UsageError when no recipe is named."""
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
    """The question for a recipe where none is named; a word that could be one is put behind -c."""
    from pdl.config.named import find

    stray = next((word for word in words if "=" not in word and find(word).suffix in (".yaml", ".yml")), "RECIPE")
    return f"which recipe? write: -c {stray}{other}"
