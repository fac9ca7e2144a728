"""From a name to a file that is surely the right one."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

from pdl import watch
from pdl.errors import DataError, UsageError
from pdl.hub import mirrors, wheels
from pdl.hub.cache import ABSENT, PART, cache_dir, copy, fault, lock, place, publish, writing
from pdl.hub.entries import Entry, Wheel
from pdl.hub.fetch import Failed, Patience, download
from pdl.hub.index import entry, incompatible, index

Failures = list[str]
"""What was tried, and why it did not help: `place: reason`."""


def resolve(name: str | Path, *, patience: Patience | None = None) -> Path:
    """The local file of a name such as `cv/resnet18`; a path to a file is returned as it is.

    Tried are, in this order: the cache; the package that lists the name; the folders and addresses in PDL_HUB; wheels;
    http. A file counts only when its size and sha256 are the published ones. No socket is opened for a file that is on
    this machine, nor with PDL_OFFLINE=1. Raises UsageError for an unknown name or another version of pdl,
    DataError with every source and its failure when none has the file.
    """
    return Path(name) if Path(name).is_file() else obtain(usable(str(name)), patience=patience)


def obtainable(name: str) -> str | None:
    """Why the file of a name cannot be had, in a line; None where it is here, or could be fetched now, at one try."""
    try:
        wanted = usable(name)
        if present(wanted) is None:
            obtain(wanted, patience=Patience(stall=10.0, attempts=1))
    except (DataError, UsageError) as error:
        reason = "PDL_OFFLINE is set" if offline() else str(error).splitlines()[0]
        return f"{name} is not on this machine and could not be fetched ({reason}; `pdl download {name}` fetches it)"
    return None


def usable(name: str) -> Entry:
    """The entry of a name, for this version of pdl; UsageError otherwise."""
    wanted = entry(name)
    problem = incompatible(wanted)
    if problem:
        raise UsageError(problem)
    return wanted


def obtain(entry: Entry, *, patience: Patience | None = None) -> Path:
    """The verified file of an entry: where it is, or fetched into the cache."""
    target = place(cache_dir(), entry)
    problem = fault(target, entry)
    if problem is None:
        return target
    failures = [f"{target}: {problem}"]
    found = _at_hand(entry, failures)
    return found or fetch(entry, cache_dir(), failures, patience)


def copy_at_hand(entry: Entry, folder: Path, failures: Failures) -> Path | None:
    """A copy of a verified file of this machine in a folder laid out like the cache, if there is one."""
    cached = place(cache_dir(), entry)
    found = cached if fault(cached, entry) is None else _at_hand(entry, failures)
    if found is None:
        return None
    with lock(folder, entry.sha256, entry.name, watch.note):
        return copy_to(found, place(folder, entry), entry)


def save(entry: Entry, folder: Path, *, patience: Patience | None = None) -> Path:
    """The verified file of an entry, by its own name in any folder; UsageError where another file has that name."""
    target = folder / entry.file
    problem = fault(target, entry)
    if problem not in (None, ABSENT):
        raise UsageError(f"{target}: {problem}; remove it, or choose another folder")
    return target if problem is None else copy_to(obtain(entry, patience=patience), target, entry)


def present(entry: Entry) -> Path | None:
    """Where a file lies on this machine, by its size; `obtain` looks at all of it."""
    places = [place(cache_dir(), entry), *_local(entry)]
    return next((path for path in places if os.path.isfile(path) and os.path.getsize(path) == entry.bytes), None)


def copy_to(source: Path, target: Path, entry: Entry) -> Path:
    """A verified copy under another path; an existing file is replaced atomically."""
    part = target.with_name(target.name + PART)
    with writing(target, entry.bytes):
        target.parent.mkdir(parents=True, exist_ok=True)
    with source.open("rb") as file:
        copy(file, part, entry)
    problem = publish(part, target, entry)
    if problem:
        raise DataError(f"{source}: {problem}, as it was copied to {target}; try again")
    return target


def fetch(entry: Entry, folder: Path, failures: Failures, patience: Patience | None = None) -> Path:
    """The file from where it is not on this machine, into a folder laid out like the cache."""
    target = place(folder, entry)
    sources = _remote(entry, target, patience)
    if offline() or not sources:
        failures += [f"{source}: not asked, for PDL_OFFLINE is set" for source, _ in sources]
        raise DataError(_unavailable(entry, failures))
    with lock(folder, entry.sha256, entry.name, watch.note):
        problem = fault(target, entry)
        if problem is None:  # another process was quicker
            return target
        with writing(target, entry.bytes):
            target.parent.mkdir(exist_ok=True)
            target.unlink(missing_ok=True)
        for source, bring in sources:
            try:
                bring()
            except Failed as error:
                failures.append(f"{source}: {error}")
                continue
            _tell(entry, failures)
            return target
        with suppress(OSError):  # stays if it holds the beginning of the file
            target.parent.rmdir()
    raise DataError(_unavailable(entry, failures))


def offline() -> bool:
    """Whether the user wants no connection: PDL_OFFLINE=1."""
    return os.environ.get("PDL_OFFLINE", "0") not in ("", "0")


def folders() -> list[Path]:
    """Where files of any name are looked for: the cache, and the folders in PDL_HUB."""
    return [cache_dir(), *mirrors.folders()]


def _at_hand(entry: Entry, failures: Failures) -> Path | None:
    """A file on this machine that is the published one."""
    for path in _local(entry):
        problem = fault(path, entry)
        if problem is None:
            _tell(entry, failures)
            return path
        failures.append(f"{path}: {problem}")
    return None


def _tell(entry: Entry, failures: Failures) -> None:
    """What did not help before something else did, but for places that simply do not have the file."""
    for line in failures:
        if not line.endswith(f": {ABSENT}"):
            watch.note(f"{entry.name}: passed over {line}")


def _local(entry: Entry) -> Iterator[Path]:
    yield from (entry.inside(source.package) for source in entry.sources if source.package)
    for folder in mirrors.folders():
        first, by_hand = mirrors.candidates(folder, entry)
        yield by_hand if os.path.exists(by_hand) and not os.path.exists(first) else first
    found = (wheels.installed(source.wheel) for source in entry.sources if source.wheel)
    yield from (path for path in found if path)


def _remote(entry: Entry, target: Path, patience: Patience | None) -> list[tuple[str, Callable[[], None]]]:
    """Sources that need the network, in order, each with what puts the verified file at `target`."""
    http = patience or Patience()
    mirrored = [mirrors.address(base, entry) for base in mirrors.addresses()]
    wheel = [source.wheel for source in entry.sources if source.wheel]
    urls = [source.url for source in entry.sources if source.url]
    return [
        *((mirrors.shown(url), partial(_by_http, url, target, entry, http)) for url in mirrored),
        *((str(each), partial(_by_wheel, each, target, entry, patience)) for each in wheel),
        *((url, partial(_by_http, url, target, entry, http)) for url in urls),
    ]


def _by_http(url: str, target: Path, entry: Entry, patience: Patience) -> None:
    part = target.with_name(target.name + PART)
    download(url, part, entry, lambda done: watch.progress(entry.name, done, entry.bytes), patience)
    _published(part, target, entry)


def _by_wheel(wheel: Wheel, target: Path, entry: Entry, patience: Patience | None) -> None:
    watch.progress(entry.name, 0, entry.bytes)
    with writing(target, entry.bytes):
        scratch = tempfile.TemporaryDirectory(dir=target.parent, prefix="wheel-", ignore_cleanup_errors=True)
    with scratch:
        path = wheels.fetch(wheel, Path(scratch.name), patience)
        _take(path, wheel, target, entry)
        if target.parent.parent == cache_dir():
            _take_others(path, wheel)
    watch.progress(entry.name, entry.bytes, entry.bytes)


def _take(path: Path, wheel: Wheel, target: Path, entry: Entry) -> None:
    """A member of a wheel to its place, by way of a file beside the wheel that is nobody else's."""
    part = path.parent / (entry.file + PART)
    wheels.take(path, wheel.member, part, entry)
    _published(part, target, entry)


def _take_others(path: Path, wheel: Wheel) -> None:
    """The other models of a wheel, which is here anyway: OCR wants three of one. What does not fit is left to be
    explained when it is asked for.
    """
    for other in index().values():
        target = place(cache_dir(), other)
        for each in (source.wheel for source in other.sources if source.wheel and not target.exists()):
            if (each.name, each.version) == (wheel.name, wheel.version):
                with suppress(DataError), writing(target, other.bytes):
                    target.parent.mkdir(exist_ok=True)
                    _take(path, each, target, other)


def _published(part: Path, target: Path, entry: Entry) -> None:
    problem = publish(part, target, entry)
    if problem:
        raise Failed(f"has another file: it {problem}")


def _unavailable(entry: Entry, failures: Failures) -> str:
    """Everything that was tried, and how to get the file all the same."""
    target = place(cache_dir(), entry)
    lines = [f"{entry.name}: {entry.file} ({entry.bytes} bytes, sha256 {entry.sha256}) is not to be had:", *failures]
    elsewhere = (
        f"on a machine that is online, `pdl hub mirror DIR {entry.name}`; then set PDL_HUB to a copy of DIR here"
    )
    advice = f"unset PDL_OFFLINE, or {elsewhere}" if offline() else f"try again later, or {elsewhere}"
    return "\n  ".join([*lines, f"What helps: {advice}, or put the file at {target}"])
