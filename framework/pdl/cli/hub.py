"""`pdl hub list | clear | mirror`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pdl.cli import style
from pdl.cli.common import Json

if TYPE_CHECKING:
    from pdl.hub.copies import Cached

EXAMPLE = "Example:  pdl hub list        pdl hub clear 'ocr/*'        pdl hub mirror /srv/pdl"
app = typer.Typer(
    add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False, no_args_is_help=True, epilog=EXAMPLE,
    help="Look into the cache of pretrained models, empty it, or make a mirror.",
)  # fmt: skip


@app.command("list", epilog="Example:  pdl hub list --json")
def show(json: Json = False) -> None:
    """Where the cache is, what it holds, and how large that is. PDL_CACHE chooses another place."""
    from pdl.hub import cache_dir
    from pdl.hub.copies import cached

    found = cached()
    if json:
        return style.json({"cache": cache_dir(), "files": [vars(each) for each in found]})
    style.pairs([("cache", cache_dir()), ("size", style.size(sum(each.bytes for each in found)))])
    if found:
        style.out("")
        of_name: dict[str, list[Cached]] = {}
        for each in found:
            of_name.setdefault(_name(each), []).append(each)
        style.table(["name", "size", "state"], [[name, *_together(held)] for name, held in of_name.items()])


@app.command(epilog="Example:  pdl hub clear 'ocr/*'        pdl hub clear '*'", no_args_is_help=True)
def clear(
    pattern: Annotated[str, typer.Argument(metavar="PATTERN", help="Part of a name, or a pattern with * and ?.")],
    json: Json = False,
) -> None:
    """Remove fetched files of some names from the cache, or with '*' all. They are fetched again when they are
    needed."""
    from pdl.hub import copies

    gone = copies.clear(pattern)
    if json:
        return style.json([vars(each) for each in gone])
    style.out(f"removed: {len(gone)} files, {style.size(sum(each.bytes for each in gone))}")


@app.command(epilog="Example:  pdl hub mirror /srv/pdl 'ocr/*'; then elsewhere: PDL_HUB=/srv/pdl", no_args_is_help=True)
def mirror(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="The folder; made if it is not there.")],
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="PATTERN...", help="Names or patterns; by default everything.", show_default=False),
    ] = None,
    json: Json = False,
) -> None:
    """Put pretrained files into a folder that machines without a network can use: PDL_HUB=DIR, or PDL_HUB=https://...
    where a web server offers it.

    Existing files are checked; a second call goes on where the first stopped. `sha256sum -c SHA256SUMS` works.
    """
    from pdl import hub

    made = hub.mirror(folder, *(names or ()))
    if json:
        return style.json([{"name": each.name, "path": hub.place(folder, each), "state": how} for each, how in made])
    style.table(["name", "size", "state"], [[each.name, style.size(each.bytes), how] for each, how in made])


_ORDER = ("fetched", "in part", "built", "unlisted")


def _together(held: list[Cached]) -> tuple[str, str]:
    """Size and state of what the cache has of one model: its file, and the bundle made of it."""
    states = " and ".join(dict.fromkeys(sorted((each.state for each in held), key=_ORDER.index)))
    return style.size(sum(each.bytes for each in held)), states


def _name(each: Cached) -> str:
    return each.name or f"{each.folder.name[:12]}... (no package lists it)"
