"""`pdl lr-find`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pdl.cli import style
from pdl.cli.common import Json, Overrides, Recipe, recipe
from pdl.cli.signals import stoppable

EXAMPLE = "Example:  pdl lr-find -c cv/digits_lenet --out rates.html"


def command(
    config: Recipe = None,
    overrides: Overrides = None,
    start: Annotated[float, typer.Option("--start", help="The first rate.")] = 1e-6,
    end: Annotated[float, typer.Option("--end", help="The last rate.")] = 1.0,
    steps: Annotated[int, typer.Option("--steps", help="From one to the other.")] = 100,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", metavar="PAGE.html", help="Write a page with the curve.")
    ] = None,
    json: Json = False,
) -> None:
    """Find a learning rate: train for some steps with a rate that rises, and see where the loss falls fastest (the
    range test of Smith, arXiv 1506.01186). Nothing is kept of the model.
    """
    from pdl.files import write_atomic
    from pdl.workflow import lr_find

    loaded = recipe(config, overrides)
    with stoppable():
        found = lr_find(loaded, start=start, end=end, steps=steps)
    if out is not None:
        write_atomic(out, found.page(str(config)))
    if json:
        return style.json(found.to_dict())
    style.table(["lr", "loss", ""], found.rows())
    style.out("")
    style.pairs([
        ("least loss at", f"{found.least:.1e}"),
        ("suggested", f"optim.lr={found.suggested:.1e}"),
        ("curve", None if out is None else str(out)),
    ])  # fmt: skip
