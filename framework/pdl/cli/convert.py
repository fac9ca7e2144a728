"""`pdl convert`."""

from __future__ import annotations

from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from pdl.cli import style
from pdl.cli.common import Json
from pdl.workflow.converting import converters

EXAMPLE = (
    "Example:  pdl convert photos/ photos_coco/ --to coco        pdl convert cells.csv cells_yolo/ --to yolo --copy"
)
MOST = 12  # classes that are shown


class OnError(StrEnum):
    """What `--on-error` takes."""

    error = "error"
    skip = "skip"


def command(
    source: Annotated[Path, typer.Argument(metavar="SOURCE", help="The folder or file the data lies in.")],
    folder: Annotated[Path, typer.Argument(metavar="DEST", help="A folder that is not there yet, or empty.")],
    to: Annotated[str, typer.Option("--to", metavar="FORMAT", help=f"One of {', '.join(sorted(converters()))}.")],
    given: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="FORMAT", help="The format of SOURCE; else it is recognised.", show_default=False
        ),
    ] = None,
    copy: Annotated[bool, typer.Option("--copy/--link", help="Copy pictures, or link to them (hard links).")] = False,
    on_error: Annotated[
        OnError, typer.Option("--on-error", help="What a broken image or annotation does: end it, or be left out.")
    ] = OnError.error,
    json: Json = False,
) -> None:
    """Write a data set in another format; the old one stays as it is."""
    from pdl.workflow.converting import convert

    facts = convert(source, folder, to=to, given=given, copy=copy, on_error=on_error.value)
    if json:
        return style.json(facts)
    for each in facts["left_out"]:
        style.note(f"left out: {each}")
    style.pairs(_lines(facts, folder))


def _lines(facts: dict[str, Any], folder: Path) -> Iterator[tuple[str, str]]:
    yield "written", f"{folder} ({facts['from']} -> {facts['to']})"
    for split, counts in facts["splits"].items():
        yield split, ", ".join(f"{count:,} {what}" for what, count in counts.items())
    classes = facts["classes"]
    more = f", and {len(classes) - MOST} more" if len(classes) > MOST else ""
    yield "classes", ", ".join(classes[:MOST]) + more
    if facts["lost"]:
        yield "lost", f"{', '.join(facts['lost'])} ({facts['to']} cannot hold them)"
