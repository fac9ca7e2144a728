"""`pdl download`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pdl.cli import style
from pdl.cli.common import Json

EXAMPLE = "Example:  pdl download cv/digits_lenet        pdl download 'ocr/*' --to weights"


def command(
    names: Annotated[
        list[str],
        typer.Argument(metavar="NAME...", help="Names or patterns; `pdl models` lists them.", show_default=False),
    ],
    to: Annotated[
        Path | None, typer.Option("--to", metavar="DIR", help="Also put the files here, under their own names.")
    ] = None,
    json: Json = False,
) -> None:
    """Fetch pretrained models, check them (sha256), and say where they are. Files that are cached are not fetched
    again.

    Fetched files stay in the cache (`pdl hub`), so the models work offline from then on.
    """
    from pdl.hub.catalogue import select
    from pdl.hub.copies import each
    from pdl.hub.files import resolve, save, usable

    chosen = [usable(entry.name) for entry in select(names)]
    found = each(chosen, lambda entry: (entry.name, str(save(entry, to) if to else resolve(entry.name))))
    style.json(dict(found)) if json else style.out("\n".join(path for _, path in found))
