"""`pdl leaderboard`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pdl.cli import style
from pdl.cli.common import Json, board
from pdl.cli.signals import stoppable
from pdl.errors import UsageError

EXAMPLE = "Example:  pdl leaderboard cv/digits_lenet rec/synthetic_lr --seeds 3        pdl leaderboard runs"
Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[RECIPE|RUN...] [OVERRIDES]",
        help="More recipes, and settings for all of them: train.epochs=3. Or runs, or folders of runs, to be compared.",
        show_default=False,
    ),
]


def command(
    words: Words = None,
    config: Annotated[
        list[str] | None,
        typer.Option(
            "--config", "-c", metavar="RECIPE", help="A YAML file, a name, or a pattern of either; more may follow."
        ),
    ] = None,
    seeds: Annotated[int, typer.Option("--seeds", min=1, help="How often each is trained.")] = 3,
    metrics: Annotated[
        str, typer.Option("--metrics", metavar="A,B,..", help="By default all of the test; sorted by the first.")
    ] = "",
    runs: Annotated[
        Path, typer.Option("--runs", metavar="DIR", help="Where the runs are: DIR/<recipe>-seed<N>.")
    ] = Path("runs"),
    markdown: Annotated[Path | None, typer.Option("--markdown", metavar="FILE", help="Write the table there.")] = None,
    json: Json = False,
) -> None:
    """Train several recipes over several seeds, and show them in one table with their baselines. Run folders, or
    folders of them, are compared as they are.

    An interrupted leaderboard goes on where it was. Exit code 1 when a recipe fails.
    """
    from pdl.workflow.leaderboards import compared, leaderboard

    given = [*(config or ()), *(word for word in words or () if "=" not in word)]
    settings = [word for word in words or () if "=" in word]
    chosen = [name for name in metrics.split(",") if name]
    folders = [word for word in given if Path(word).is_dir()]
    if folders and (len(folders) < len(given) or settings):
        raise UsageError(f"{folders[0]}: runs are compared as they are; give recipes and settings apart from them")
    if folders:
        found = compared(folders, metrics=chosen, tell=style.note)
    else:
        with stoppable("the same command goes on from here") as stopping:
            found = leaderboard(
                given, overrides=settings, seeds=seeds, metrics=chosen, runs=runs, tell=style.note, progress=not json,
                hooks=[stopping],
            )  # fmt: skip
    board(found, markdown, json)
