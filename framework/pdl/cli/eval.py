"""`pdl eval`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pdl.cli import style
from pdl.cli.common import Json, Overrides

EXAMPLE = "Example:  pdl eval runs/digits --split val"


def command(
    run: Annotated[Path, typer.Argument(metavar="RUN|BUNDLE", help="The run folder, or a bundle made of it.")],
    overrides: Overrides = None,
    split: Annotated[str, typer.Option("--split", help="train, val or test.")] = "test",
    weights: Annotated[
        str | None, typer.Option("--weights", help="best or last; by default those of the run's test.")
    ] = None,
    json: Json = False,
) -> None:
    """Measure a trained run, or its bundle, on a split of its data; overrides may point it to other data."""
    from pdl.train import evaluate

    result = evaluate(run, split=split, overrides=overrides or [], weights=weights)
    if json:
        style.json(result.to_dict())
    else:
        style.pairs(
            [*result.metrics.items(), ("weights", result.weights), ("seconds", result.seconds), ("run", result.run)]
        )
