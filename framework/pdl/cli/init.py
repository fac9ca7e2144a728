"""`pdl init`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pdl.cli import style

EXAMPLE = "Example:  pdl init cv.classification --data photos/ --out photos.yaml"


def _tasks(incomplete: str) -> list[str]:
    from pdl.config.init import writers

    return [name for name in writers() if name.startswith(incomplete)]


def command(
    task: Annotated[str, typer.Argument(metavar="TASK", help="For example cv.classification.", autocompletion=_tasks)],
    data: Annotated[Path, typer.Option("--data", metavar="DIR", help="The folder your data lies in.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="Where to write the recipe.")] = Path(
        "recipe.yaml"
    ),
    force: Annotated[bool, typer.Option("--force", help="Replace an existing file.")] = False,
) -> None:
    """Write a recipe for your own data that trains unedited."""
    from pdl.config.init import init

    written = init(task, data=data, out=out, force=force)
    style.out(f"{written}\nnext:  pdl train -c {written}")
