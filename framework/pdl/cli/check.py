"""`pdl check`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from pdl.cli import style
from pdl.cli.common import Json, Overrides, Recipe, recipe

DRAWN = 16  # samples of the page
EXAMPLE = "Example:  pdl check -c cv/image_folder_mobilenetv3 data.train.root=photos"


def command(
    config: Recipe = None,
    overrides: Overrides = None,
    draw: Annotated[
        Path | None,
        typer.Option("--draw", metavar="PAGE.html", help="Also write a page of samples of train.", show_default=False),
    ] = None,
    json: Json = False,
) -> None:
    """Look for faults before training: in the recipe, then in every sample of its data.

    Found are files that cannot be read, class lists that differ, labels out of range, empty splits, and images
    that are both in train and in val or test; in data of recommendation also columns that were mixed up, the same
    sessions in two splits, training later than the test, and items that training does not have; in data of objects
    boxes outside of their image or without area, masks of another size, classes with almost no objects, and images of
    two splits that look the same. Exit code 2 for a fault in the recipe, 3 for one in the data; warnings leave it at 0.
    """
    from pdl.files import write_atomic
    from pdl.train import recipe as known
    from pdl.workflow import preview

    checked = known.Recipe(recipe(config, overrides))
    found = checked.task.build().check(checked)
    errors = [fault for fault in found if fault.severity == "error"]
    if json:
        style.json({"good": not errors, "faults": [vars(fault) for fault in found]})
    else:
        for fault in found:
            style.error(f"{'' if fault.severity == 'error' else 'warning: '}{fault}")
        style.out(f"faults: {len(errors)}, warnings: {len(found) - len(errors)}" if found else "no fault found")
    if draw is not None:
        drawable = known.Recipe(recipe(config, [*(overrides or ()), "data.on_error=skip"]))  # the others are told above
        write_atomic(draw, preview(drawable, samples=DRAWN, versions=1).page())
        if not json:
            style.out(f"samples: {draw}")
    if errors:
        raise typer.Exit(3)
