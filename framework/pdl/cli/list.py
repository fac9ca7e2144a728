"""`pdl list`: the parts that recipes can name, by kind."""

from __future__ import annotations

from typing import Annotated

import typer

from pdl.cli import config, models, style
from pdl.cli.common import Json
from pdl.errors import UsageError

EXAMPLE = "Example:  pdl list optimizers"


def command(
    kind: Annotated[
        str,
        typer.Argument(
            metavar="KIND",
            help="models, layers, tasks, datasets, transforms, optimizers, schedules, losses, metrics or recipes.",
        ),
    ],
    pattern: Annotated[str, typer.Argument(metavar="PATTERN", help="Part of a name, or a pattern with * and ?.")] = "*",
    json: Json = False,
) -> None:
    """List what recipes can name: short name, import path, and what it is. `pdl config keys NAME` shows its keys."""
    from pdl.config.parts import KINDS, parts
    from pdl.suites import suggest

    if kind == "recipes":
        return config.list_(pattern, json)
    if kind == "models":
        return models.command(pattern, json=json)
    if kind not in KINDS:
        raise UsageError(f"{kind!r}: lists are {', '.join([*KINDS, 'recipes'])}{suggest(kind, [*KINDS, 'recipes'])}")
    found = parts(kind, pattern)
    if not found:
        raise UsageError(f"no {kind} are named like {pattern!r}{suggest(pattern, [each.name for each in parts(kind)])}")
    if json:
        return style.json(
            [{**vars(each), "arguments": dict(each.arguments), "summary": each.summary} for each in found]
        )
    style.table(["name", "_target_", "what it is"], [[each.name, each.target, each.summary] for each in found])
