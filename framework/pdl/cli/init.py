"""`pdl init`."""

from __future__ import annotations

import shlex
from itertools import takewhile
from pathlib import Path
from typing import Annotated

import typer

from pdl.cli import style
from pdl.errors import UsageError
from pdl.workflow.new_recipe import writers

EXAMPLE = (
    "Example:  pdl init cv.classification --data photos/        pdl init graph.node --data friends/"
    "        pdl init suite audio"
)
SUITE = "suite"


def _tasks(incomplete: str) -> list[str]:
    return [name for name in (SUITE, *writers()) if name.startswith(incomplete)]


def command(
    task: Annotated[
        str,
        typer.Argument(
            metavar="TASK|suite", help=f"One of {', '.join(writers())}; or the word suite.", autocompletion=_tasks
        ),
    ],
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="With suite: what it is called.", show_default=False)
    ] = None,
    data: Annotated[
        Path | None, typer.Option("--data", metavar="PATH", help="With a task: the folder or file your data lies in.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="PATH", help="Where to write: recipe.yaml, or the folder pdl-NAME, by default."),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an existing recipe.")] = False,
) -> None:
    """Write a recipe for your own data that trains unedited; or a new suite whose tests pass as they are."""
    if task == SUITE:
        return _suite(name, data, out, force)
    if name is not None:
        raise UsageError(f"what is {name!r}? a recipe for your data is written with: pdl init {task} --data PATH")
    from pdl.workflow.new_recipe import init

    if data is None and task in writers():
        raise UsageError(f"--data names the folder or file your data lies in: pdl init {task} --data PATH")
    written = init(task, data=data or "", out=out or "recipe.yaml", force=force)
    found = takewhile(lambda line: line.startswith("#"), written.read_text(encoding="utf-8").splitlines())
    then = f"next:  pdl train -c {shlex.quote(str(written))}"
    style.out("\n".join([str(written), *(line.lstrip("# ") for line in found), then]))


def _suite(name: str | None, data: Path | None, out: Path | None, force: bool) -> None:
    if name is None:
        raise UsageError("which name? write: pdl init suite NAME")
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
