"""`pdl data list | get`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from pdl.cli import style
from pdl.cli.common import Json
from pdl.errors import UsageError

if TYPE_CHECKING:
    from pdl.hub.public import PublicSet

EXAMPLE = "Example:  pdl data list        pdl data get graph/cora"
app = typer.Typer(
    add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False, no_args_is_help=True, epilog=EXAMPLE,
    help="List the public data sets that recipes name, and fetch them.",
)  # fmt: skip


@app.command("list", epilog="Example:  pdl data list graph        pdl data list --json")
def show(
    pattern: Annotated[str, typer.Argument(metavar="PATTERN", help="Part of a name, or a pattern with * and ?.")] = "*",
    json: Json = False,
) -> None:
    """Public data sets that recipes of the installed suites name, what they are, and whether they are here. Data that
    ships with a suite is not among them."""
    from pdl.hub.catalogue import matches
    from pdl.hub.gathering import located
    from pdl.hub.public import public_sets
    from pdl.suites import suggest

    known = public_sets()
    found = [each for name, each in known.items() if matches(pattern, name)]
    if not found:
        raise UsageError(f"no public data set is named like {pattern!r}{suggest(pattern, known)}")
    if json:
        return style.json([each.to_dict() | {"verified": each.verified, "folder": located(each)} for each in found])
    rows = [[each.name, _size(each), "yes" if located(each) else "no", each.licence, each.summary] for each in found]
    style.table(["name", "size", "here", "licence", "what it is"], rows)


@app.command(
    epilog="Example:  pdl data get cv/cifar10 --accept-licence        pdl data get rec/yoochoose64 --from Downloads",
    no_args_is_help=True,
)
def get(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="Names that `pdl data list` shows.")],
    to: Annotated[
        Path | None,
        typer.Option("--to", metavar="DIR", help="Put the files below this folder (for PDL_DATA), not in the cache."),
    ] = None,
    originals: Annotated[
        Path | None, typer.Option("--from", metavar="DIR", help="A folder with the original files.")
    ] = None,
    accept_licence: Annotated[
        bool, typer.Option("--accept-licence", help="You have read the licence, and agree.")
    ] = False,
    trust_first: Annotated[
        bool, typer.Option("--trust-first", help="Take data that no known hash vouches for, and record its hash.")
    ] = False,
    json: Json = False,
) -> None:
    """Fetch public data sets from where they are published, check them, and write the files that recipes read. Recipes
    find them without further settings.

    The licence is shown, and must be accepted. PDL_HUB names mirrors to look into first; PDL_OFFLINE=1 opens no
    connection. A download that broke off is gone on with.
    """
    from pdl.hub.gathering import get_public, here
    from pdl.hub.public import public_set

    chosen = [public_set(name) for name in names]
    found: dict[str, list[str]] = {}
    for each in chosen:
        agreed = here(each, to) or _agreed(each, accept_licence)
        paths = get_public(each.name, folder=to, originals=originals, accept_licence=agreed, trust_first=trust_first)
        found[each.name] = list(map(str, paths))
    style.json(found) if json else style.out("\n".join(path for paths in found.values() for path in paths))


def _agreed(chosen: PublicSet, accepted: bool) -> bool:
    """Show what is fetched and its licence; on a terminal ask whether that is accepted, unless it is."""
    if not accepted and not sys.stdin.isatty():
        return False  # the error names the licence
    style.note(f"{chosen.name}: {chosen.summary}")
    style.note(f"from      {chosen.home}{'' if chosen.bytes is None else f' ({_size(chosen)})'}")
    style.note(f"licence   {chosen.licence}")
    return accepted or typer.confirm("Do you accept the licence?", err=True)


def _size(chosen: PublicSet) -> str:
    return "-" if chosen.bytes is None else style.size(chosen.bytes)
