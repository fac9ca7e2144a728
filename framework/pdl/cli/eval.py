"""`pdl eval`."""

from __future__ import annotations

from typing import Annotated

import typer

from pdl.cli import style
from pdl.cli.common import Json, Overrides, located

EXAMPLE = "Example:  pdl eval runs/digits --split val"


def command(
    run: Annotated[
        str,
        typer.Argument(metavar="RUN|BUNDLE|NAME", help="A run folder, a bundle of it, or a name of `pdl models`."),
    ],
    overrides: Overrides = None,
    split: Annotated[str, typer.Option("--split", help="train, val or test.")] = "test",
    weights: Annotated[
        str | None, typer.Option("--weights", help="best or last; by default those of the run's test.")
    ] = None,
    json: Json = False,
) -> None:
    """Measure a trained run, its bundle, or a pretrained model on a split of its data, or of other data (overrides)."""
    from pdl.train import evaluate

    result = evaluate(located(run), split=split, overrides=overrides or [], weights=weights)
    if json:
        style.json(result.to_dict())
    else:
        style.pairs(
            [*result.metrics.items(), ("weights", result.weights), ("seconds", result.seconds), ("run", result.run)]
        )
