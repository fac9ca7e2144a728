"""Public data sets that recipes name: the dataclasses are the schema of `data.yaml`, which a suite has beside its
`hub.yaml`. Files are read, nothing is imported.

    format: 1
    sets:
      cora:                             # its name is `graph/cora`
        summary: 2,708 papers and the 5,278 citations between them
        home: https://github.com/kimiyoung/planetoid
        licence: none stated            # what the home page says of it
        folder: graph                   # where its files are, below PDL_DATA
        files:                          # the originals
          - {file: ind.cora.x, urls: ["https://..."], bytes: 1000, sha256: 64 hex digits}
        convert: {function: planetoid, name: cora}      # a function of <package>.data.originals, and its arguments
        makes: {cora.npz: 64 hex digits}

Bytes and sha256 of an original may be left out where nobody has published them. What `convert` makes of the originals
is then compared with `makes`: one of the two decides whether the data is what it should be. A file without `urls` is
not to be had by a program; `by_hand` says how people get it.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

from pdl import suites
from pdl.config.signature import SECTION
from pdl.config.tree import Config, Fault, Key
from pdl.config.words import show
from pdl.errors import ConfigError, UsageError
from pdl.hints import Range
from pdl.hub.schema import INSIDE, NAME, SHA256, IndexChecker, index_tree, is_file_name, is_inside, is_url, other_format
from pdl.packages import Package

FILE = "data.yaml"


@dataclass(frozen=True)
class Original:
    """A file as those who made the data publish it.

    urls    https addresses of it, in the order they are tried
    bytes   its size, where that is known; else at most `pdl.hub.gathering.MOST`
    """

    file: str
    urls: Sequence[str] = ()
    bytes: Annotated[int, Range(1)] | None = None
    sha256: str | None = None


@dataclass(frozen=True)
class PublicSpec:
    """One data set of the file, as it is written there. The module's docstring explains every key."""

    summary: str
    home: str
    licence: str
    folder: str
    files: Sequence[Annotated[Original, SECTION]]
    convert: Mapping[str, Any] | None = None
    makes: Mapping[str, str | None] | None = None
    by_hand: str | None = None


@dataclass(frozen=True)
class PublicFile:
    """The whole file."""

    format: int
    sets: Mapping[str, Annotated[PublicSpec, SECTION]]


@dataclass(frozen=True)
class PublicSet(PublicSpec):
    """A data set with its full name (`graph/cora`) and the package that offers it."""

    name: str = field(kw_only=True)
    package: Package = field(kw_only=True)

    @property
    def made(self) -> Mapping[str, str | None]:
        """The files in `folder` when all is done, and their sha256 where it is known."""
        return self.makes or {each.file: each.sha256 for each in self.files}

    @property
    def verified(self) -> bool:
        """Whether hashes decide that it is what it should be: those of all originals, or of all that is made."""
        return all(each.sha256 for each in self.files) or all(self.made.values())

    @property
    def bytes(self) -> int | None:
        """Of all originals; None where one's size is not known."""
        sizes = [each.bytes for each in self.files]
        return None if None in sizes else sum(size for size in sizes if size)

    def to_dict(self) -> dict[str, Any]:
        """All of it, for JSON."""
        from dataclasses import asdict

        facts = asdict(self)
        del facts["package"]
        return {"name": facts.pop("name"), **facts}


def public_sets() -> dict[str, PublicSet]:
    """Every public data set of the installed suites by its full name. ConfigError with all faults of a `data.yaml`."""
    found: dict[str, PublicSet] = {}
    for package in suites.installed().values():
        path = package.folder / FILE
        if path.is_file():
            status = path.stat()
            found |= _read(package, status.st_mtime_ns, status.st_size)
    return found


def public_set(name: str) -> PublicSet:
    """The data set of a full name (`graph/cora`), or of a short one (`cora`) that only one suite has; UsageError for
    any other."""
    known = public_sets()
    alike = [each for each in known if name in (each, each.rpartition("/")[2])]
    if len(alike) == 1:
        return known[alike[0]]
    if alike:
        raise UsageError(f"{name!r} is in several suites; write {' or '.join(alike)}")
    hint = suites.suggest(name, {each.rpartition("/")[2]: each for each in known} if "/" not in name else known)
    raise UsageError(f"{name!r} is no public data set that a suite names{hint or '; `pdl data list` shows them'}")


@functools.lru_cache(maxsize=64)
def _read(package: Package, changed: int, size: int) -> dict[str, PublicSet]:
    """One file, read again when it changes."""
    path = package.folder / FILE
    tree, marks = index_tree(path, "sets")
    checker = IndexChecker()
    if not other_format(tree, checker):
        checker.arguments(tree, PublicFile, ())
        mistyped = {fault.path[:2] for fault in checker.faults}
        sets = {} if ("sets",) in mistyped else tree["sets"]
        checker.faults += [
            fault for key, given in sets.items() if ("sets", key) not in mistyped for fault in _limits(key, given)
        ]
    if checker.faults:
        config = Config(tree, path, origins=marks)
        raise ConfigError([config.line(fault) for fault in checker.faults])
    found = {}
    for key, given in tree["sets"].items():
        facts = {**given, "files": tuple(Original(**each) for each in given["files"])}
        found[f"{package.name}/{key}"] = PublicSet(**facts, name=f"{package.name}/{key}", package=package)
    return found


def _limits(key: str, given: dict[str, Any]) -> Iterator[Fault]:
    """What types cannot say, of a data set whose types are right."""
    where: Key = ("sets", key)
    if not NAME.fullmatch(key):
        yield Fault(where, f"{key!r} is no name: letters, digits, '_', '-' and '.' only")
    if not given["home"].startswith("https://") or not is_url(given["home"]):
        yield Fault((*where, "home"), f"expected an address like https://host/path, got {show(given['home'])}")
    if not is_inside(given["folder"]):
        yield Fault((*where, "folder"), f"expected {INSIDE}, got {show(given['folder'])}")
    if not given["files"]:
        yield Fault((*where, "files"), "is empty; the data must come from somewhere")
    for number, each in enumerate(given["files"]):
        yield from _wrong_original(each, given.get("by_hand"), (*where, "files", number))
    for name, digest in (given.get("makes") or {}).items():
        if not is_file_name(name):
            yield Fault((*where, "makes", name), "is no plain file name, without folders")
        if digest is not None and not SHA256.fullmatch(digest):
            yield Fault((*where, "makes", name), f"expected 64 lower-case hex digits, got {show(digest)}")
    convert = given.get("convert")
    if (convert is None) != (given.get("makes") is None):
        yield Fault((*where, "convert"), "convert and makes belong together: give both or neither")
    if convert is not None and not str(convert.get("function", "")).isidentifier():
        yield Fault((*where, "convert"), f"expected {{function: NAME, ...}}, got {show(convert)}")


def _wrong_original(given: dict[str, Any], by_hand: str | None, where: Key) -> Iterator[Fault]:
    if not is_file_name(given["file"]):
        yield Fault((*where, "file"), f"expected a plain file name, without folders, got {show(given['file'])}")
    for url in given.get("urls") or ():
        if not url.startswith("https://") or not is_url(url):
            yield Fault((*where, "urls"), f"expected an address like https://host/path, got {show(url)}")
    if not given.get("urls") and not by_hand:
        yield Fault((*where, "urls"), "no address, and no by_hand of the set that says how people get the file")
    if given.get("sha256") is not None and not SHA256.fullmatch(given["sha256"]):
        yield Fault((*where, "sha256"), f"expected 64 lower-case hex digits, got {show(given['sha256'])}")
    if given.get("sha256") is not None and given.get("bytes") is None:
        yield Fault((*where, "bytes"), "missing; a file whose hash is known has a known size")
