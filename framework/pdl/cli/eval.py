"""`pdl eval`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pdl.cli import common, style
from pdl.cli.common import Json, MaxMemory, Overrides, Timeout

EXAMPLE = "Example:  pdl eval runs/digits --split val"


def command(
    run: Annotated[
        str,
        typer.Argument(metavar="RUN|BUNDLE|NAME", help="A run folder, a bundle of it, or a name of `pdl models`."),
    ],
    overrides: Overrides = None,
    split: Annotated[str, typer.Option("--split", help="train, val or test.")] = "test",
    data: Annotated[
        Path | None,
        typer.Option("--data", metavar="PATH", help="Other data: a folder or file, as pdl init reads it."),
    ] = None,
    weights: Annotated[
        str | None, typer.Option("--weights", help="best or last; by default those of the run's test.")
    ] = None,
    baselines: Annotated[
        bool, typer.Option("--baselines/--no-baselines", help="Also measure the simple methods that the task knows.")
    ] = True,
    timeout: Timeout = None,
    max_memory: MaxMemory = None,
    json: Json = False,
) -> None:
    """Measure a trained run, its bundle, or a pretrained model on a split of its data, or of other data: --data, or
    overrides such as data.test.root=PATH."""
    from pdl.workflow import evaluate
    from pdl.workflow.locating import located

    result = evaluate(
        located(run), split=split, data=data, overrides=overrides or [], weights=weights, baselines=baselines,
        timeout=timeout, max_memory=max_memory,
    )  # fmt: skip
    if json:
        return style.json(result.to_dict())
    style.pairs(
        [*result.measured(), ("weights", result.weights), ("seconds", result.seconds), ("run", result.run)]
    )
    common.baselines(result)
