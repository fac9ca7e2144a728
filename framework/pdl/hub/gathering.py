"""From the name of a public data set to files that its class reads: fetched, converted, compared with known hashes."""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from pdl import watch
from pdl.errors import DataError, UsageError
from pdl.files import fetched_root, under_roots, write_atomic
from pdl.hub import mirrors, web
from pdl.hub.cache import PART, fault, lock, place, publish, sha256, writing
from pdl.hub.entries import Entry
from pdl.hub.fetch import Failed, Patience, download
from pdl.hub.files import offline
from pdl.hub.public import Original, PublicSet, public_set

MOST = 64 << 20
"""Bytes of an original whose size is not known."""
RECORDS = ".sources"  # the folder with what was fetched, from where, under which licence
ORIGINALS = "data.originals"  # the module of a suite that converts


def get_public(
    name: str,
    *,
    folder: str | Path | None = None,
    originals: str | Path | None = None,
    accept_licence: bool = False,
    trust_first: bool = False,
    patience: Patience | None = None,
) -> list[Path]:
    """The files of a public data set as its class reads them; fetched and converted unless they are there and right.

    folder          where they go (below it in the set's own folder); by default where data sets look for them too,
                    `pdl.data.store.fetched_root()`
    originals       a folder that has the original files; what it lacks is fetched
    accept_licence  that you have read the licence and agree
    trust_first     take what differs from what the results were measured on, or what nobody has published a hash of;
                    its hash is recorded, and a second download must have the same

    Originals come from `originals`, the folders and addresses in PDL_HUB (as <sha256>/<file>, folders also as <file>),
    and the addresses of the set, in this order; no socket is opened with PDL_OFFLINE=1. UsageError for an unknown name
    and a licence that is not accepted; DataError with every source and its failure, and for content that is not what it
    should be. What breaks off is gone on with next time.
    """
    chosen = public_set(name)
    root = Path(folder).expanduser() if folder is not None else fetched_root()
    paths = [root / chosen.folder / file for file in chosen.made]
    if here(chosen, root):
        return paths
    if not accept_licence:
        raise UsageError(
            f"{chosen.name} is published under a licence: {chosen.licence} ({chosen.home}); if you accept it, "
            "say accept_licence=True (--accept-licence)"
        )
    if not (chosen.verified or chosen.by_hand or trust_first):
        raise UsageError(
            f"{chosen.name}: nobody has published a hash of this data, so what comes cannot be verified; to take it "
            "all the same, and hold later downloads to it, say trust_first=True (--trust-first)"
        )
    key = chosen.name.replace("/", ".")
    with lock(root / RECORDS, key, chosen.name, watch.note):
        work = root / RECORDS / f"{key}{PART}"
        given = None if originals is None else Path(originals).expanduser()
        try:
            found = {each.file: _original(chosen, each, work, given, patience) for each in chosen.files}
        finally:
            with suppress(OSError):  # stays if it holds anything
                work.rmdir()
        hashes = {each.file: each.sha256 or sha256(found[each.file]) for each in chosen.files}
        made = _converted(chosen, found, work)
        _judge(chosen, made, root, trust_first)
        _keep(chosen, hashes, made, root)
        shutil.rmtree(work, ignore_errors=True)
    return paths


def here(chosen: PublicSet, root: Path | None = None) -> bool:
    """Whether all files of a data set are there, with the right content where that is known."""
    folder = (fetched_root() if root is None else root) / chosen.folder
    return all(
        (folder / file).is_file() and (digest is None or content_hash(folder / file) == digest)
        for file, digest in chosen.made.items()
    )


def located(chosen: PublicSet) -> Path | None:
    """The folder below PDL_DATA or the cache that has files of these names, whatever is in them; None where neither
    has all."""
    folders = under_roots(chosen.folder)
    return next((each for each in folders if all((each / file).is_file() for file in chosen.made)), None)


def content_hash(path: Path) -> str:
    """sha256 of a file; of *.txt.gz of the text inside, which other programs compress to other bytes."""
    if not path.name.endswith(".txt.gz"):
        return sha256(path)
    with gzip.open(path) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


# -- originals ---------------------------------------------------------------------------------------------------------
def _original(chosen: PublicSet, original: Original, work: Path, given: Path | None, patience: Patience | None) -> Path:
    """The local path of an original; one that is fetched lies in the folder `work`."""
    failures: list[str] = []
    own = _as_entry(chosen, original)
    target = work / original.file if own is None else place(work, own)
    local = [given / original.file] if given is not None else []
    local += [path for folder in mirrors.folders() for path in _candidates(folder, original, own)]
    for path in [target, *local]:
        problem = fault(path, own) if own is not None else None if path.is_file() else "not there"
        if problem is None:
            return path
        failures.append(f"{path}: {problem}")
    with writing(target, original.bytes or 0):
        target.parent.mkdir(parents=True, exist_ok=True)
    for url in _addresses(original, own):
        if offline():
            failures.append(f"{mirrors.shown(url)}: not asked, for PDL_OFFLINE is set")
            continue
        try:
            _fetch(url, target, chosen, own, patience)
        except DataError as error:
            failures.append(f"{mirrors.shown(url)}: {error}")
            continue
        return target
    raise DataError(_unavailable(chosen, original, failures))


def _as_entry(chosen: PublicSet, original: Original) -> Entry | None:
    """What the fetcher of models takes, for an original whose size and hash are known."""
    if original.sha256 is None or original.bytes is None:
        return None
    about = (chosen.summary, chosen.licence, chosen.home, "", original.file, original.bytes, original.sha256)
    return Entry("data", *about, [], name=chosen.name, package=chosen.package)


def _candidates(folder: Path, original: Original, own: Entry | None) -> list[Path]:
    return [folder / original.file] if own is None else mirrors.candidates(folder, own)


def _addresses(original: Original, own: Entry | None) -> Iterator[str]:
    if own is not None:
        yield from (mirrors.address(base, own) for base in mirrors.addresses())
    yield from original.urls


def _fetch(url: str, target: Path, chosen: PublicSet, own: Entry | None, patience: Patience | None) -> None:
    if own is not None:
        part = target.with_name(target.name + PART)
        download(url, part, own, lambda done: watch.progress(chosen.name, done, own.bytes), patience or Patience())
        problem = publish(part, target, own)
        if problem:
            raise Failed(f"has another file: it {problem}")
        return
    data = web.content(url, MOST, patience=patience)
    with writing(target, len(data)):
        write_atomic(target, data)


def _unavailable(chosen: PublicSet, original: Original, failures: list[str]) -> str:
    """Everything that was tried, and how to get the data all the same."""
    lines = [f"{chosen.name}: {original.file} is not to be had:", *failures]
    if chosen.by_hand:
        lines.append(chosen.by_hand)
    lines.append(f"With the original files in a folder: pdl data get {chosen.name} --from FOLDER ({chosen.home})")
    return "\n  ".join(lines)


# -- conversion --------------------------------------------------------------------------------------------------------
def _converted(chosen: PublicSet, found: Mapping[str, Path], work: Path) -> dict[str, Path]:
    """The files that the data set's class reads, by name, in a folder of `work`."""
    out = work / "made"
    shutil.rmtree(out, ignore_errors=True)
    with writing(out, chosen.bytes or 0):
        out.mkdir(parents=True)
    if chosen.convert is None:
        for name, path in found.items():
            _into(path, out / name, inside=work in path.parents)
    else:
        arguments = {key: value for key, value in chosen.convert.items() if key != "function"}
        getattr(chosen.package.module(ORIGINALS), chosen.convert["function"])(found, out, **arguments)
    return {name: out / name for name in chosen.made}


def _into(source: Path, target: Path, *, inside: bool) -> None:
    """A file to another place: moved where it is our own, else copied."""
    if inside:
        source.replace(target)
        return
    size = source.stat().st_size
    with writing(target, size):
        shutil.copyfile(source, target)


def _judge(chosen: PublicSet, made: Mapping[str, Path], root: Path, trust_first: bool) -> None:
    """DataError where the content is not what the results were measured on, or was at the first download."""
    first = _record(root, chosen).get("makes", {})
    for name, path in made.items():
        digest, known = content_hash(path), chosen.made[name]
        if known is not None and digest != known and not trust_first:
            raise DataError(
                f"{chosen.name}: {name}, made of what was fetched, has sha256 {digest}; pdl's results were measured on "
                f"{known}. It may be another edition: --trust-first takes it"
            )
        if not (known == digest or first.get(name) in (None, digest)):
            raise DataError(
                f"{chosen.name}: {name} has sha256 {digest} and had {first[name]} when it was first fetched; if that "
                f"is as it should be, remove {_record_path(root, chosen)}"
            )


def _keep(chosen: PublicSet, hashes: Mapping[str, str], made: Mapping[str, Path], root: Path) -> None:
    """Put the files where they belong, and record what they are."""
    facts: dict[str, Any] = {"name": chosen.name, "home": chosen.home, "licence": chosen.licence, "files": dict(hashes)}
    facts["makes"] = {name: content_hash(path) for name, path in made.items()}
    folder = root / chosen.folder
    for name, path in made.items():
        with writing(folder / name, path.stat().st_size):
            folder.mkdir(parents=True, exist_ok=True)
            os.replace(path, folder / name)
    write_atomic(_record_path(root, chosen), json.dumps(facts, indent=1) + "\n")


def _record_path(root: Path, chosen: PublicSet) -> Path:
    return root / RECORDS / f"{chosen.name.replace('/', '.')}.json"


def _record(root: Path, chosen: PublicSet) -> dict[str, Any]:
    try:
        found = json.loads(_record_path(root, chosen).read_text("utf-8"))
    except (OSError, ValueError):  # none yet, or damaged
        return {}
    return found if isinstance(found, dict) else {}
