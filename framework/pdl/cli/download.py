"""`pdl download`."""

from __future__ import annotations

from typing import Annotated

import typer

from pdl.cli import style
from pdl.cli.common import Json

EXAMPLE = "Example:  pdl download cv/resnet18"


def command(
    names: Annotated[
        list[str],
        typer.Argument(metavar="NAME...", help="Names of weights; `pdl models` lists them.", show_default=False),
    ],
    json: Json = False,
) -> None:
    """Find pretrained weights on this machine, check them (sha256), and say where they are."""
    from pdl import hub

    found = {name: str(hub.resolve(name)) for name in names}
    style.json(found) if json else style.out("\n".join(found.values()))
