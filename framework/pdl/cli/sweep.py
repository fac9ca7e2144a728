"""`pdl sweep`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pdl.cli import style
from pdl.cli.common import Json, Overrides, Quiet, Recipe, board, which
from pdl.cli.signals import stoppable
from pdl.errors import UsageError

EXAMPLE = "Example:  pdl sweep -c cv/digits_lenet train.seed=0,1,2 optim.lr=1e-3,1e-2    (or: --folds 5)"
VALIDATE = ("inner", "held_out")


def command(
    config: Recipe = None,
    overrides: Overrides = None,
    folds: Annotated[
        int, typer.Option("--folds", metavar="K", min=0, help="Cross-validate: K trainings, each tests another part.")
    ] = 0,
    validate: Annotated[
        str, typer.Option("--validate", help="What chooses a fold's weights: inner (the next fold) or held_out.")
    ] = "inner",
    search: Annotated[
        int, typer.Option("--search", metavar="N", min=0, help="Train N settings that Optuna proposes.")
    ] = 0,
    metrics: Annotated[
        str, typer.Option("--metrics", metavar="A,B,..", help="By default the monitored one and those of the test.")
    ] = "",
    runs: Annotated[
        Path | None, typer.Option("--runs", metavar="DIR", help="Where the runs are; by default runs/<recipe>-sweep.")
    ] = None,
    markdown: Annotated[Path | None, typer.Option("--markdown", metavar="FILE", help="Write the table there.")] = None,
    quiet: Quiet = False,
    json: Json = False,
) -> None:
    """Train a recipe with every combination of values: key=1,2,3 or key=range(2,6); with --search also
    key=interval(0.1,0.9) or key=tag(log,interval(1e-4,1e-1)).

    The table has a row for each setting, with mean and standard deviation over train.seed=0,1,2 or the folds, sorted
    by validation. Runs that are finished are loaded. Exit code 1 when a run fails.
    """
    from pdl.workflow import sweep

    words = list(overrides or ())
    if config is None:
        raise UsageError(which(words))
    if validate not in VALIDATE:
        raise UsageError(f"--validate {validate}: choose {' or '.join(VALIDATE)}")
    if folds == 1:
        raise UsageError("--folds 1: there must be two at least")
    how: Any = validate
    with stoppable("the same command goes on from here") as stopping:
        found = sweep(
            config, words, runs=runs, folds=folds, validate=how, search=search,
            metrics=[name for name in metrics.split(",") if name], tell=(lambda line: None) if quiet else style.note,
            progress=not (json or quiet), hooks=[stopping],
        )  # fmt: skip
    board(found, markdown, json)
