"""`pdl runs`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pdl.cli import style
from pdl.cli.common import Json

EXAMPLE = "Example:  pdl runs --sort test/accuracy --where 'test/accuracy>0.9' --where model=*LeNet"
NO_ARGS_IS_HELP = False


def command(
    folders: Annotated[
        list[Path] | None,
        typer.Argument(metavar="[DIR...]", help="Folders of runs, at any depth; by default runs.", show_default=False),
    ] = None,
    where: Annotated[
        list[str] | None,
        typer.Option("--where", metavar="COND", help="NAME=VALUE (a pattern), or with != < <= > >=; all must hold."),
    ] = None,
    sort: Annotated[
        str, typer.Option("--sort", metavar="NAME", help="Metrics the best first, all else ascending; -NAME: reversed.")
    ] = "",
    metrics: Annotated[str, typer.Option("--metrics", metavar="A,B,..", help="Which to show.")] = "",
    json: Json = False,
) -> None:
    """List runs, finished or not: what they reached, and what they are.

    A NAME is a column (status, recipe, model, seed, epochs, steps, seconds, parameters, started), a metric
    (test/accuracy), or a setting of the recipe (optim.lr).
    """
    from pdl.train.log import duration
    from pdl.workflow.listing import FIELDS, Entry, name_of, runs
    from pdl.workflow.metric_names import of_the_test

    conditions = where or []
    found = runs(folders or ["runs"], where=conditions, sort=sort)
    requested = [name for name in (*metrics.split(","), sort.removeprefix("-"), *map(name_of, conditions)) if name]
    if json:
        return style.json([entry.to_dict(requested) for entry in found])
    own = [name for entry in found for name in of_the_test(entry.metrics)[:1]]
    shown = list(dict.fromkeys([*requested, *([] if metrics else own)]))
    shown = [name for name in shown if name not in FIELDS]

    def row(entry: Entry) -> list[object]:
        facts, seconds = entry.facts, entry.facts["seconds"]
        time = None if seconds is None else duration(seconds)
        model = str(facts["model"]).rpartition(".")[2]
        started = str(facts["started"] or "-")[:16].replace("T", " ")
        values = [entry.get(name) for name in shown]
        return [facts["run"], *values, facts["status"], facts["epochs"], time, model, facts["seed"], started]

    if not found:
        return style.note("no run is like that")
    style.table(["run", *shown, "status", "epochs", "time", "model", "seed", "started"], map(row, found))
