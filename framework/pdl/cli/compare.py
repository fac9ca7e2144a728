"""`pdl compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pdl.cli import style
from pdl.cli.common import Json

EXAMPLE = "Example:  pdl compare runs/a runs/b --out compared.html"


def command(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN RUN...", help="Run folders.", show_default=False)],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="PAGE.html", help="Write a page with their curves overlaid.")
    ] = None,
    json: Json = False,
) -> None:
    """Compare runs, finished or not: the settings in which they differ, and what they reached."""
    from pdl.files import write_atomic
    from pdl.workflow.comparing import compare

    found = compare(runs)
    if out is not None:
        write_atomic(out, found.page())
    if json:
        return style.json(found.to_dict())
    style.table(["", *found.runs], [[name, *values] for name, values in found.reached])
    style.out("")
    if found.settings:
        style.table(["setting", *found.runs], [[name, *values] for name, values in found.settings])
    else:
        style.out("no setting differs")
    if out is not None:
        style.note(f"curves: {out}")
