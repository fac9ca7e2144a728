"""`pdl preview`."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

import typer

from pdl.cli import style
from pdl.cli.common import Json, Overrides, Recipe, recipe

EXAMPLE = "Example:  pdl preview -c cv/digits_lenet --samples 4 data.batch_size=16"


def command(
    config: Recipe = None,
    overrides: Overrides = None,
    split: Annotated[str, typer.Option("--split", help="train, val or test.")] = "train",
    samples: Annotated[int, typer.Option("--samples", min=1, help="How many are shown.")] = 8,
    versions: Annotated[
        int, typer.Option("--versions", min=1, help="Of each, as many as this many epochs see (images).")
    ] = 6,
    seed: Annotated[int | None, typer.Option("--seed", help="In place of train.seed.", show_default=False)] = None,
    out: Annotated[Path, typer.Option("--out", "-o", metavar="PAGE.html", help="Where the page is written.")] = Path(
        "preview.html"
    ),
    json: Json = False,
) -> None:
    """Write a page of samples as training will see them: images with their augmentations, and mixed batches; of other
    data the fields of the first batches. Nothing is trained.
    """
    from pdl.files import write_atomic
    from pdl.workflow import preview

    loaded = recipe(config, overrides)
    found = preview(loaded, split=split, samples=samples, versions=versions, seed=seed)
    write_atomic(out, found.page())
    settings = [*(overrides or ()), *([] if seed is None else [f"train.seed={seed}"])]
    then = shlex.join(["pdl", "train", "-c", str(config), *settings])
    facts = {**found.facts, "page": str(out), "next": then}
    if json:
        return style.json(facts)
    style.pairs(facts.items())
