"""Every pretrained file that installed packages offer, by name: the `hub.yaml` of suites (entry points in the group
`pdl.suites`) and of model packages (group `pdl.models`). Files are read, nothing is imported.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable
from pathlib import Path

from pdl import packages, suites
from pdl.errors import ConfigError, UsageError
from pdl.hub.entries import Entry, Source, System, Wheel
from pdl.hub.schema import FILE
from pdl.packages import Package
from pdl.version import __version__

__all__ = ["Entry", "Source", "Wheel", "broken", "entry", "incompatible", "index", "offering"]


def offering() -> list[Package]:
    """Installed packages that have an index: suites first, then packaged models."""
    found = [*suites.installed().values(), *packages.installed(packages.MODELS).values()]
    return [package for package in found if (package.folder / FILE).is_file()]


def index() -> dict[str, Entry]:
    """Every entry by its full name, in the order of packages and of their files. A package whose file has faults is
    left out; `broken` says which and why.
    """
    return _all()[0]


def broken() -> dict[str, ConfigError]:
    """Packages whose index cannot be used, with the faults of each."""
    return _all()[1]


def entry(name: str) -> Entry:
    """The entry of a full name (`cv/digits_lenet`), or of a short one (`digits_lenet`) that only one package has.

    Raises UsageError for a name that no package or more than one has, ConfigError with the faults of the index
    that should have it.
    """
    known, faulty = _all()
    if name in known:
        return known[name]
    alike = [each for each in known.values() if each.short == name]
    if len(alike) == 1:
        return alike[0]
    if alike:
        raise UsageError(f"{name!r} is in several packages; write {' or '.join(each.name for each in alike)}")
    package = name.partition("/")[0]
    if package in faulty:
        raise faulty[package]
    for each in packages.left_out():
        if each.name == package:
            raise UsageError(f"{name!r}: {each}")
    from pdl.hub.systems import system

    if whole := system(name):
        raise UsageError(f"{whole.name} is a system and no single model: {', '.join(whole.parts.values())}; name one")
    raise UsageError(_unknown(name, known, faulty))


def incompatible(entry: Entry | System) -> str | None:
    """Why this version of pdl cannot use an entry or system and what to type, or None."""
    if packages.fits(entry.pdl):
        return None
    remedy = packages.remedy(entry.pdl, entry.package.distribution or entry.package.package)
    return f"{entry.name} is made for pdl {entry.pdl}, and this is pdl {__version__}; {remedy}"


def _all() -> tuple[dict[str, Entry], dict[str, ConfigError]]:
    found: dict[str, Entry] = {}
    faulty: dict[str, ConfigError] = {}
    for package in offering():
        try:
            given = _read(package, *_stamp(package.folder / FILE))
            twice = [name for name in given if name in found]
            if twice:
                other = found[twice[0]].package
                raise ConfigError(f"{package.folder / FILE}: {twice[0]} is the name of a model of {other.package} too")
            found |= given
        except ConfigError as error:
            faulty[package.name] = error
    return found, faulty


@functools.lru_cache(maxsize=256)
def _read(package: Package, changed: int, size: int) -> dict[str, Entry]:
    """One file, read again when it changes."""
    from pdl.hub import schema

    return schema.read(package)


def _stamp(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_mtime_ns, status.st_size


def _unknown(name: str, known: dict[str, Entry], faulty: Iterable[str]) -> str:
    missing = f"{name!r}: no file or run folder of that name, and no pretrained model"
    faulty = sorted(faulty)
    if faulty:
        missing += f" (the index of {', '.join(faulty)} has faults and was left out; `pdl models` shows them)"
    package, slash, _ = name.partition("/")
    present = {*suites.installed(), *(each.package.name for each in known.values())}
    if slash and package.isidentifier() and package not in present and not Path(package).exists():
        missing += f"; no package {package!r} is installed, `pip install pdl-{package}` may bring it"
    names = {each.short: each.name for each in known.values()} if not slash else {each: each for each in known}
    hint = suites.suggest(name, names)
    if not known:
        return f"{missing}; the installed packages list none, so give the path of a file"
    return missing + (hint or "; `pdl models` lists what there is")
