"""`pdl sweep`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from pdl.cli import style
from pdl.cli.common import Json, Overrides, Quiet, Recipe, board, which
from pdl.cli.signals import stoppable
from pdl.errors import UsageError

EXAMPLE = (
    "Example:  pdl sweep -c cv/digits_lenet train.seed=0,1,2 optim.lr=1e-3,1e-2    (or: --folds 5)"
    "    pdl sweep -c cv/digits_lenet 'optim.lr=log(1e-4,1e-1)' --trials 20"
)
VALIDATE, SCHEDULERS = ("inner", "held_out"), ("none", "asha")


def command(
    config: Recipe = None,
    overrides: Overrides = None,
    folds: Annotated[
        int, typer.Option("--folds", metavar="K", min=0, help="Cross-validate: K trainings, each tests another part.")
    ] = 0,
    validate: Annotated[
        str, typer.Option("--validate", help="What chooses a fold's weights: inner (the next fold) or held_out.")
    ] = "inner",
    trials: Annotated[
        int, typer.Option("--trials", metavar="N", min=0, help="Train N settings that Optuna proposes.")
    ] = 0,
    scheduler: Annotated[
        str, typer.Option("--scheduler", help="asha: stop settings early that are not among the best; or none.")
    ] = "none",
    grace: Annotated[
        int | None,
        typer.Option(
            "--grace", metavar="EPOCHS", min=1, help="With asha: none is stopped earlier; by default a 27th of all.",
            show_default=False,
        ),
    ] = None,
    factor: Annotated[
        int, typer.Option("--factor", metavar="F", min=2, help="With asha: one of F goes on, for F times the epochs.")
    ] = 3,
    jobs: Annotated[
        int | None,
        typer.Option("--jobs", "-j", metavar="K", min=1, help="Runs at once, which share the cores; by default one.",
                     show_default=False),
    ] = None,
    ray: Annotated[
        str | None,
        typer.Option("--ray", metavar="ADDRESS", help="On a cluster, by Ray Tune: auto, HOST:PORT, or local."),
    ] = None,
    ensemble: Annotated[
        int,
        typer.Option("--ensemble", metavar="K", min=0, help="Average the K best runs, into DIR/ensemble; a row more."),
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
) -> None:  # fmt: skip
    """Train a recipe with every combination of values: key=1,2,3 or key=range(2,6); with --trials also
    key=interval(0.1,0.9) or key=log(1e-4,1e-1).

    The table has a row for each setting, with mean and standard deviation over train.seed=0,1,2 or the folds, sorted
    by validation; DIR/sweep.html shows all of them. Runs that are finished are loaded, others go on: the same command,
    or one with more trials, goes on after Ctrl-C. Exit code 1 when a run fails.
    """
    from pdl.workflow import sweep

    words = list(overrides or ())
    if config is None:
        raise UsageError(which(words))
    _require("--validate", validate, VALIDATE)
    _require("--scheduler", scheduler, SCHEDULERS)
    if folds == 1:
        raise UsageError("--folds 1: there must be two at least")
    how: Any = {"validate": validate, "scheduler": scheduler}
    with stoppable("the same command goes on from here") as stopping:
        found = sweep(
            config, words, runs=runs, folds=folds, trials=trials, grace=grace, factor=factor, jobs=jobs, ray=ray,
            average=ensemble, metrics=[name for name in metrics.split(",") if name],
            tell=(lambda line: None) if quiet else style.note, progress=not (json or quiet), hooks=[stopping], **how,
        )  # fmt: skip
    board(found, markdown, json)


def _require(option: str, word: str, known: tuple[str, ...]) -> None:
    if word not in known:
        raise UsageError(f"{option} {word}: choose {' or '.join(known)}")
