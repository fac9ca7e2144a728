"""`pdl init`."""

from __future__ import annotations

import shlex
from itertools import takewhile
from pathlib import Path
from typing import Annotated

import typer

from pdl.cli import style
from pdl.errors import UsageError
from pdl.runtime.steps import Flag
from pdl.suites import suggest
from pdl.workflow.new_recipe import writers

EXAMPLE = (
    "Example:  pdl init cv.classification --data photos/        pdl init graph.node --data friends/"
    "        pdl init suite audio"
)
SUITE = "suite"
SETTINGS = {"ignore_unknown_options": True, "help_option_names": []}
"""Options that typer does not know are those of the task; --help is that of the task, too."""


def _tasks(incomplete: str) -> list[str]:
    return [name for name in (SUITE, *writers()) if name.startswith(incomplete)]


def command(
    context: typer.Context,
    task: Annotated[
        str | None,
        typer.Argument(
            metavar="TASK|suite",
            help=f"One of {', '.join(writers())}; or the word suite.",
            autocompletion=_tasks,
            show_default=False,
        ),
    ] = None,
    arguments: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]",
            help="With suite: what it is called. With a task: its own options, which pdl init TASK --help shows.",
            show_default=False,
        ),
    ] = None,
    data: Annotated[
        Path | None, typer.Option("--data", metavar="PATH", help="With a task: the folder or file your data lies in.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="PATH", help="Where to write: recipe.yaml, or the folder pdl-NAME, by default."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing recipe.")] = False,
    help: Annotated[bool, typer.Option("-h", "--help", help="Show this, and options of the task.")] = False,
) -> None:
    """Write a recipe for your own data that trains unedited; or a new suite whose tests pass as they are."""
    if help or task is None or task.startswith("-"):
        if help:
            return style.out("\n\n".join([context.get_help(), *_own(task)]))
        raise UsageError("which task? write it first: pdl init TASK ...")
    if task == SUITE:
        return _suite(arguments or [], data, out, force)
    from pdl.workflow.new_recipe import init, options

    chosen = _chosen(task, options(task), arguments or [])
    written = init(task, data=data, out=out or "recipe.yaml", force=force, **chosen)
    found = takewhile(lambda line: line.startswith("#"), written.read_text(encoding="utf-8").splitlines())
    then = f"next:  pdl train -c {shlex.quote(str(written))}"
    style.out("\n".join([str(written), *(line.lstrip("# ") for line in found), then]))


def _own(task: str | None) -> list[str]:
    """The options of a task, to be read."""
    from pdl.workflow.new_recipe import options

    flags = options(task).values() if task in writers() else ()
    about = {f"{flag.name} {flag.metavar}": flag.help for flag in flags}
    width = max(map(len, about), default=0)
    lines = [f"  {name:<{width}}  {said}" for name, said in about.items()]
    return ["\n".join([f"Options of {task}:", *lines])] if lines else []


def _chosen(task: str, known: dict[str, Flag], arguments: list[str]) -> dict[str, str]:
    """The values of a task's own options, by the names of its writer's arguments."""
    from pdl.workflow.prediction import parse_flags

    flags = list(known.values())
    have = ", ".join(["--data PATH", "--out PATH", "--force", *(f"{flag.name} {flag.metavar}" for flag in flags)])
    names = [part.split()[0] for part in have.split(", ")]
    words, values = parse_flags(
        flags, arguments, lambda name: f"{task} has no option {name}{suggest(name, names)} (it takes {have})"
    )
    if words:
        raise UsageError(f"what is {words[0]!r}? a recipe for your data is written with: pdl init {task} --data PATH")
    if twice := [name for name, given in values.items() if len(given) > 1]:
        raise UsageError(f"{twice[0]} is given {len(values[twice[0]])} times; give it once")
    return {argument: values[flag.name][0] for argument, flag in known.items() if flag.name in values}


def _suite(arguments: list[str], data: Path | None, out: Path | None, force: bool) -> None:
    if not arguments:
        raise UsageError("which name? write: pdl init suite NAME")
    name, *more = arguments
    if more or name.startswith("-"):
        raise UsageError(f"what is {[*more, name][0]!r}? a suite is written with: pdl init suite NAME")
    if data is not None or force:
        raise UsageError(f"{'--data' if data is not None else '--force'} belongs to recipes; a suite is written with: "
                         f"pdl init suite {name}")  # fmt: skip
    from pdl.workflow.new_suite import new_suite

    folder = new_suite(name, out)
    recipe = next(folder.glob("pdl_*/recipes/*.yaml"))
    named = f"{recipe.parts[-3].removeprefix('pdl_')}/{recipe.stem}"
    place, tested = shlex.quote(str(folder)), shlex.quote(f"{folder}[test]")
    following = [f"pip install -e {tested}", f"pytest {place}", f"pdl train -c {named}"]
    style.out("\n".join([str(folder), *(f"{'next:' * (not i):5}  {line}" for i, line in enumerate(following))]))
