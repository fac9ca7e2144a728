"""`pdl config list | keys | show | check | diff`."""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path
from typing import Annotated

import typer

from pdl.cli import style
from pdl.cli.common import Json, Overrides, Recipe, recipe
from pdl.errors import UsageError

EXAMPLE = "Example:  pdl config show -c cv/digits_lenet --origins"
app = typer.Typer(
    add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False, no_args_is_help=True, epilog=EXAMPLE,
    help="List, show, check and compare recipes; look up their keys.",
)  # fmt: skip


@app.command("list", epilog="Example:  pdl config list graph")
def list_(
    pattern: Annotated[str, typer.Argument(metavar="PATTERN", help="Part of a name, or a pattern with * and ?.")] = "*",
    json: Json = False,
) -> None:
    """The recipes that come with the installed suites; a recipe of your own is named by its path."""
    from pdl.config.named import shipped, summary

    known = {name: summary(file) for name, file in shipped().items() if fnmatch(name, f"*{pattern}*")}
    if json:
        return style.json([{"name": name, "summary": text} for name, text in known.items()])
    if not known and pattern != "*":
        raise UsageError(f"no recipe is named like {pattern!r}; pdl config list names all of them")
    if not known:
        return style.note("no installed suite ships recipes; name a file: -c RECIPE.yaml")
    style.table(["recipe", "what it is"], known.items())


@app.command(epilog="Example:  pdl config show -c cv/digits_lenet train.epochs=3 --origins", no_args_is_help=True)
def show(
    config: Recipe = None,
    overrides: Overrides = None,
    origins: Annotated[
        bool, typer.Option("--origins", help="End each line with the file and line that set it.")
    ] = False,
    defaults: Annotated[bool, typer.Option("--defaults", help="With all that the recipe leaves to defaults.")] = False,
    json: Json = False,
) -> None:
    """The resolved recipe: parts, overrides and interpolations applied. What is wrong with it is said afterwards."""
    from pdl.config import show as text
    from pdl.config import with_defaults
    from pdl.train.recipe import Schema, check, faults

    loaded = recipe(config, overrides, checked=False)
    faults(loaded)  # short names and keys of the command line are in their places from here on
    shown = with_defaults(loaded, Schema) if defaults else loaded
    style.json(shown.plain()) if json else style.out(text(shown, origins=origins).rstrip("\n"))
    for notice in loaded.notices:
        style.note(notice)
    check(loaded)


@app.command(epilog="Example:  pdl config keys train   (or: data optim sgd resnet18, or -c cv/digits_lenet)")
def keys(
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="WORDS",
            show_default=False,
            help="Sections (train, data.transforms), keys (train.ema), parts (sgd, resnet18); and overrides of RECIPE.",
        ),
    ] = None,
    config: Recipe = None,
    json: Json = False,
) -> None:
    """The keys that a recipe may have, with type, range, default and meaning; with -c those of its parts, too."""
    from pdl.config import keys as found
    from pdl.train.recipe import Schema, faults

    given = [word for word in words or () if "=" in word or word.startswith("~")]
    loaded = None if config is None else recipe(config, given, checked=False)
    if given and loaded is None:
        raise UsageError(f"{given[0]}: an override needs its recipe: -c RECIPE")
    if loaded is not None:
        faults(loaded)
    rows = found(Schema, [word for word in words or () if word not in given], loaded)
    if json:
        return style.json([each.to_dict() for each in rows])
    for each in rows:
        style.entry(each.key, str(each), each.meaning)


@app.command(epilog="Example:  pdl config check -c cv/digits_lenet optim.lr=1e-2", no_args_is_help=True)
def check(config: Recipe = None, overrides: Overrides = None) -> None:
    """Every fault of a recipe at once, without building anything."""
    loaded = recipe(config, overrides)
    style.out(f"{config}: good ({len(loaded.origins)} keys)")


@app.command(epilog="Example:  pdl config diff runs/a runs/b", no_args_is_help=True)
def diff(
    left: Annotated[Path, typer.Argument(metavar="A", help="A recipe or a run folder.")],
    right: Annotated[Path, typer.Argument(metavar="B", help="Another one.")],
    json: Json = False,
) -> int:
    """Which resolved settings of two recipes differ. Exit code 1 when any does."""
    from pdl.config import diff as compare
    from pdl.config import load

    found = compare(load(left), load(right))
    if json:
        style.json([{"key": each.key, "left": repr(each.left), "right": repr(each.right)} for each in found])
    elif found:
        style.table(["key", str(left), str(right)], [[each.key, str(each.left), str(each.right)] for each in found])
    else:
        style.out("no difference")
    return 1 if found else 0
