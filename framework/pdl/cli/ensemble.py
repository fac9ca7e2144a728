"""`pdl ensemble`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pdl.cli import style
from pdl.cli.common import Json

EXAMPLE = "Example:  pdl ensemble runs/a runs/b runs/c --run runs/abc"


def command(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN RUN...", help="Run folders.", show_default=False)],
    run: Annotated[
        Path | None,
        typer.Option("--run", metavar="DIR", help="The run folder to write; by default runs/<recipe>-ensemble-<n>."),
    ] = None,
    json: Json = False,
) -> None:
    """Make one run of several, whose answers are the mean of theirs, and measure it.

    The runs may differ in model, optimiser, seed and training data, not in the task and what it is measured on. The
    result is a run as any other: `pdl predict`, `pdl eval`, `pdl export`, with the size and time of all of them.
    """
    from pdl.workflow import ensemble

    result = ensemble(runs, run=run)
    if json:
        return style.json(result.to_dict())
    style.pairs(result.rows())
