"""`pdl models`."""

from __future__ import annotations

from typing import Annotated

import typer

from pdl.cli import style
from pdl.cli.common import Json

EXAMPLE = "Example:  pdl models 'resnet*' --task classification"
NO_ARGS_IS_HELP = False


def command(
    pattern: Annotated[str, typer.Argument(metavar="PATTERN", help="Part of a name, or a pattern with * and ?.")] = "*",
    task: Annotated[str | None, typer.Option("--task", help="Only models for this task.")] = None,
    json: Json = False,
) -> None:
    """List the models of the installed suites, with what a recipe writes to get them."""
    from pdl.hub.catalogue import catalogue

    found = catalogue(pattern, task=task)
    if json:
        style.json([vars(model) for model in found])
        return
    rows = [[model.name, model.task, model.target, model.arguments] for model in found]
    style.table(["name", "task", "_target_", "arguments"], rows)
