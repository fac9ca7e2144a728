"""Copies of pretrained files: mirrors for other machines, and what the cache holds."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from pdl import watch
from pdl.errors import DataError
from pdl.hub.cache import BUILT, CannotWrite, cache_dir, fault, lock, place, writing
from pdl.hub.catalogue import matches, select
from pdl.hub.entries import Entry
from pdl.hub.fetch import Patience
from pdl.hub.files import copy_at_hand, fetch
from pdl.hub.index import index

T = TypeVar("T")
SUMS = "SHA256SUMS"


def mirror(folder: str | Path, *names: str, patience: Patience | None = None) -> list[tuple[Entry, str]]:
    """Put the files of entries (all of them, or by names and patterns) into a folder that PDL_HUB can name, as it is or
    behind a web server: <sha256>/<file>, and SHA256SUMS for `sha256sum -c`.

    Says of each whether it was "there" already and right, "copied" from this machine, or "fetched". What breaks off is
    gone on with next time. DataError in the end tells which ones cannot be had; the others are there then.
    """
    folder = Path(folder)
    chosen = select(names) if names else list(index().values())
    try:
        return each(chosen, lambda entry: (entry, _mirrored(entry, folder, patience)))
    finally:
        _write_sums(folder)


def each(entries: Iterable[Entry], act: Callable[[Entry], T]) -> list[T]:
    """What `act` makes of every entry; where it fails for some, DataError for those when all are done."""
    made: list[T] = []
    failed: list[str] = []
    for entry in entries:
        try:
            made.append(act(entry))
        except CannotWrite:  # nor would the next one
            raise
        except DataError as error:
            failed.append(str(error))
    if not failed:
        return made
    count = f"{len(failed)} of {len(made) + len(failed)} files are missing:\n" if made or len(failed) > 1 else ""
    raise DataError(count + "\n".join(failed))


def _mirrored(entry: Entry, folder: Path, patience: Patience | None) -> str:
    target = place(folder, entry)
    problem = fault(target, entry)
    if problem is None:
        return "there"
    failures = [f"{target}: {problem}"]
    if copy_at_hand(entry, folder, failures):
        return "copied"
    fetch(entry, folder, failures, patience)
    return "fetched"


def _write_sums(folder: Path) -> None:
    """A line for every file of the index that the folder holds, also from before."""
    lines = {
        f"{each.sha256}  {each.sha256}/{each.file}\n" for each in index().values() if place(folder, each).is_file()
    }
    if lines:
        with writing(folder / SUMS, 0):
            (folder / SUMS).write_text("".join(sorted(lines)), encoding="ascii")


@dataclass(frozen=True)
class Cached:
    """What the cache holds of one file: its folder, the name it is asked for (None if no package lists it any more),
    the bytes there, and what it is: "fetched", fetched "in part", "built" on this machine of a fetched file, or
    "unlisted".
    """

    folder: Path
    name: str | None
    bytes: int
    state: str


def cached() -> list[Cached]:
    """What is in the cache, largest first."""
    return sorted(_contents(), key=lambda each: -each.bytes)


def _contents() -> Iterator[Cached]:
    hashes = {entry.sha256: entry for entry in index().values()}
    shorts = {entry.short: entry for entry in index().values()}
    built = sorted((cache_dir() / BUILT).glob("*/"))
    for folder in [*sorted(cache_dir().glob("*/")), *built]:
        files = [path for path in folder.rglob("*") if path.is_file()]
        if not folder.is_dir() or folder.name == BUILT:
            continue
        if folder.parent.name == BUILT:
            entry, state = next((shorts[path.stem] for path in files if path.stem in shorts), None), "built"
        else:
            entry = hashes.get(folder.name)
            state = "unlisted" if entry is None else "fetched" if (folder / entry.file).is_file() else "in part"
        yield Cached(folder, entry.name if entry else None, sum(path.stat().st_size for path in files), state)


def clear(pattern: str = "*") -> list[Cached]:
    """Remove from the cache what a pattern means by its name, or everything. Returns what was removed."""
    chosen = [each for each in cached() if pattern == "*" or (each.name and matches(pattern, each.name))]
    for each in chosen:
        key = each.folder.name
        with lock(each.folder.parent, key, each.name or key, watch.note), writing(each.folder, 0):
            shutil.rmtree(each.folder)
    return chosen
