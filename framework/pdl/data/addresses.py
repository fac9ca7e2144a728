"""Files by address: a path, a pattern or a list of these, on this machine or elsewhere, by way of fsspec or https.

What lies elsewhere is copied into the cache, whole, when it is first read, and copied again where its size or version
has changed there. An address names a place and never code: only these kinds of file systems are opened.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath
from typing import Any, TypeVar
from urllib.parse import unquote, urlsplit

from pdl import watch
from pdl.data.faults import fault, unreadable
from pdl.data.store import under_roots
from pdl.errors import ConfigError, DataError, PackageError, PdlError, UsageError, listed
from pdl.files import DAMAGED, PACKED, cache_root, locked, open_file, plain_name, replacing, unpacked, write_atomic

T = TypeVar("T")
HERE = ("memory", "file", "local", "zip")
KINDS = (*HERE, "http", "https", "s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "oss", "hdfs", "webhdfs")
MOST = 1 << 40
"""Bytes of a file that is copied or unpacked."""
MOST_FILES = 1_000_000
STALL = 60.0
"""Seconds that a file system may take for one answer, which is at most `_PIECE` bytes."""
_PIECE = 4 << 20
_SCHEME = re.compile(r"^([A-Za-z0-9+.-]+)://")
_RANGE = re.compile(r"\{(\d+)\.\.(\d+)\}")
_checked: set[str] = set()  # addresses whose copies this process has compared


def is_address(path: str | Path) -> bool:
    """Whether this is an address and not a path."""
    return isinstance(path, str) and ("://" in path or "::" in path)


def files_at(path: str | Path | Sequence[str | Path], endings: Sequence[str]) -> list[str]:
    """The files that a path, a pattern (``*``, ``?``, ``[...]``, ``**`` at any depth), a range (``{000..099}``) or a
    list of these names; a folder stands for all its files with these endings, at any depth. Those of a pattern or a
    folder are sorted by name. A relative path is also looked for below PDL_DATA. DataFault where there are none."""
    given = [path] if isinstance(path, str | Path) else list(path)
    found = [file for each in given for one in _ranged(str(each)) for file in _named(one, tuple(endings))]
    if not found:
        raise ConfigError("path: the list of files is empty")
    if twice := sorted({file for file in found if found.count(file) > 1} if len(found) < 10_000 else ()):
        raise ConfigError(f"path: {twice[0]} is named twice")
    return found


def local(address: str) -> Path:
    """A file on this machine with the plain bytes of an address or path: a copy, or what was unpacked, in the cache."""
    path = copied(address) if is_address(address) else Path(address)
    return path if plain_name(path) == str(path) else _plain(path)


def name_of(address: str) -> str:
    """The last part of a path or address."""
    place = address.partition("::")[0]
    return PurePosixPath(unquote(urlsplit(place).path or place) if is_address(address) else Path(address).name).name


def folder_of(address: str) -> str:
    """What stands before the last part."""
    name = name_of(address)
    return address.partition("::")[0].rpartition(name)[0] if is_address(address) else f"{Path(address).parent}{os.sep}"


def beside(address: str, name: str) -> bytes | None:
    """The bytes of the file `name` in the folder of an address; None where there is none, or it cannot be asked for."""
    chain = "".join(address.partition("::")[1:])
    there = f"{folder_of(address)}{name}{chain}"
    try:
        with open_file(local(there), 64 << 20) as file:
            return file.read()
    except (OSError, PdlError):
        return None


# -- what a path stands for --------------------------------------------------------------------------------------------
def _ranged(text: str) -> Iterator[str]:
    found = _RANGE.search(text)
    if found is None:
        yield text
        return
    first, last = int(found[1]), int(found[2])
    if not first <= last < first + MOST_FILES:
        raise ConfigError(f"path: {found[0]} in {text} is no range of at most {MOST_FILES:,} files, lower number first")
    for number in range(first, last + 1):
        yield from _ranged(f"{text[: found.start()]}{number:0{len(found[1])}}{text[found.end() :]}")


def _named(text: str, endings: tuple[str, ...]) -> list[str]:
    if is_address(text):
        return _named_there(text, endings)
    given = Path(text).expanduser()
    top = next((number for number, part in enumerate(given.parts) if set(part) & set("*?[")), None)
    if top is not None and not given.exists():
        folder, pattern = Path(*given.parts[:top]), "/".join(given.parts[top:])
        places = [each for each in (folder, *under_roots(folder)) if each.is_dir()]
        found = next((files for each in places if (files := _sorted(each, pattern))), None)
    else:
        place = next((each for each in (given, *under_roots(given)) if each.exists()), None)
        if place is None or not place.is_dir():
            found = None if place is None else [str(place)]
        else:
            found = [file for file in _sorted(place, "**/*") if plain_name(file).lower().endswith(endings)]
    if not found:
        wanted = f"a file, a pattern such as shards/*.jsonl, or a folder with files ({listed(list(endings), 20)})"
        raise fault(text, "no such file", f"name {wanted}; a relative path is also looked for below PDL_DATA")
    return found


def _sorted(folder: Path, pattern: str) -> list[str]:
    return sorted(str(each) for each in folder.glob(pattern) if each.is_file() and not each.name.startswith("."))


def _named_there(address: str, endings: tuple[str, ...]) -> list[str]:
    kind = _kinds(address)[0]
    pattern = bool(set(address.partition("::")[0]) & set("*?["))
    if kind in ("http", "https"):
        if pattern:
            raise ConfigError(f"{shown(address)}: servers do not list files; name them, or write a range {{000..099}}")
        return [address]
    system, path = _opened(address)
    chain = "".join(address.partition("::")[1:])
    if not pattern and not _asked(address, lambda: system.isdir(path)):
        return [address]
    there = path if pattern else f"{path.rstrip('/')}/**"
    found = [each for each, about in sorted(_asked(address, lambda: system.glob(there, detail=True)).items())
             if about.get("type") == "file" and (pattern or plain_name(each).lower().endswith(endings))]  # fmt: skip
    if not found:
        advice = f"name a file, a pattern, or a folder of files ({listed(list(endings), 20)})"
        raise fault(shown(address), "no such file", advice)
    plain = kind in ("memory", "zip")
    return [f"{kind}://{each.lstrip('/') if plain else system._strip_protocol(each)}{chain}" for each in found]


# -- other file systems ------------------------------------------------------------------------------------------------
def _kinds(address: str) -> list[str]:
    """The kinds of file systems of an address, of a chain (``zip://*.csv::s3://bucket/all.zip``) all of them."""
    kinds: list[str] = []
    for part in address.split("::"):
        found = _SCHEME.match(part)
        kinds.append(found[1].lower() if found else "file" if kinds else "")
        if kinds[-1] not in KINDS:
            raise ConfigError(f"{shown(address)}: expected a path, or an address of one of {', '.join(KINDS)}")
    return kinds


def shown(address: str) -> str:
    """An address without name and password."""
    return re.sub(r"//[^/@]*@", "//", address)


def _opened(address: str) -> tuple[Any, str]:
    """The file system of an address, and the path in it."""
    kinds = _kinds(address)
    if _offline() and not set(kinds) <= set(HERE):
        raise UsageError(f"{shown(address)}: PDL_OFFLINE is set, so no connection is opened; unset it, or give a file")
    try:
        from fsspec.core import url_to_fs
    except ImportError as error:
        raise PackageError(f"{shown(address)} needs fsspec: pip install 'pdl-core[remote]'") from error
    try:
        system, path = _asked(address, lambda: url_to_fs(address))
    except ImportError as error:
        raise PackageError(f"{shown(address)}: {error}") from error
    return system, str(path)


def _asked(address: str, ask: Callable[[], T], seconds: float | None = None) -> T:
    """What a file system answers; DataError where it has none, or takes too long. A thread that hangs stays behind."""
    answers: list[T] = []
    errors: list[BaseException] = []

    def work() -> None:
        try:
            answers.append(ask())
        except BaseException as error:  # handed to the caller, who raises it
            errors.append(error)

    thread = threading.Thread(target=work, name="pdl-address", daemon=True)
    thread.start()
    thread.join(STALL if seconds is None else seconds)
    if answers:
        return answers[0]
    if not errors:
        raise DataError(f"{shown(address)}: no answer within {STALL:g} s; try again later, or copy it here by hand")
    if isinstance(errors[0], ImportError | PdlError):
        raise errors[0]
    what = f"{shown(address)}: {_reason(errors[0])}; is the address right, and may you read it?"
    raise DataError(what) from errors[0]


def _reason(error: BaseException) -> str:
    if isinstance(error, FileNotFoundError):
        return "no such file"
    if isinstance(error, PermissionError):
        return "permission denied"
    return f"cannot be read ({type(error).__name__}: {shown(str(error).splitlines()[0] if str(error) else '')})"


def copied(address: str) -> Path:
    """The copy of what an address leads to, as it is, in the cache. Each process compares it once."""
    kinds = _kinds(address)
    folder = cache_root() / "shards" / hashlib.sha256(address.encode()).hexdigest()[:32]
    path = folder / (re.sub(r"[^\w.+-]", "_", name_of(address)).lstrip(".")[-100:] or "file")
    about, part = folder / "about.json", folder / "part"
    with locked(folder / "lock", lambda: None):
        said = _said(about)
        here = path.is_file() and path.stat().st_size == said.get("bytes")
        if here and (address in _checked or (_offline() and not set(kinds) <= set(HERE))):
            return path
        fetch = _by_web if kinds[0] in ("http", "https") else _by_system
        try:
            part.unlink(missing_ok=True)
            version = fetch(address, part, str(said.get("version", "")) if here else "")
            if part.exists():
                os.replace(part, path)
                said = {"bytes": path.stat().st_size, "version": version, "of": shown(address)}
                write_atomic(about, json.dumps(said))
        except OSError as error:
            raise DataError(f"{shown(address)}: cannot be copied to {path}: {error.strerror or error}") from error
    _checked.add(address)
    return path


def _offline() -> bool:
    return os.environ.get("PDL_OFFLINE", "0") not in ("", "0")


def _said(about: Path) -> dict[str, Any]:
    with suppress(OSError, ValueError):
        found = json.loads(about.read_text())
        return found if isinstance(found, dict) else {}
    return {}


def _by_web(address: str, part: Path, known: str) -> str:
    from pdl.hub import web  # slow to import

    name = name_of(address)
    return web.into_file(
        address, part, MOST, known=known, progress=lambda done, total: watch.progress(name, done, total)
    )


def _by_system(address: str, part: Path, known: str) -> str:
    system, path = _opened(address)
    about = _asked(address, lambda: system.info(path))
    size = about.get("size")
    if about.get("type") == "directory" or not isinstance(size, int):
        raise DataError(f"{shown(address)}: is no file")
    if size > MOST:
        raise DataError(f"{shown(address)}: {size:,} bytes, more than {MOST:,}, which is the most that is taken")
    stamps = (about.get(key) for key in ("ETag", "etag", "LastModified", "mtime", "created", "CRC", "date_time"))
    version = " ".join([str(size), *(str(stamp) for stamp in stamps if stamp is not None)])
    if version == known:
        return version
    done = 0
    stream = _asked(address, lambda: system.open(path, "rb"))
    with part.open("wb") as file:
        while piece := _asked(address, lambda: stream.read(_PIECE)):
            done += len(piece)
            if done > size:
                break
            file.write(piece)
            watch.progress(name_of(address), done, size)
    _asked(address, stream.close)
    if done != size:
        gives = "more" if done > size else f"{done:,}"
        raise DataError(f"{shown(address)}: should have {size:,} bytes and gives {gives}")
    return version


def _plain(path: Path) -> Path:
    """What is in a packed file (.gz, .bz2, .xz), unpacked into the cache."""
    try:
        about = path.stat()
        key = hashlib.sha256(f"{path.absolute()} {about.st_size} {about.st_mtime_ns}".encode()).hexdigest()[:32]
        target = cache_root() / "shards" / key / Path(plain_name(path.name)).name
        with locked(target.parent / "lock", lambda: None):
            if target.is_file():
                return target
            done = 0
            with (
                open_file(path) as packed, unpacked(packed, path) as stream,
                replacing(target) as part, part.open("wb") as file,
            ):  # fmt: skip
                while piece := stream.read(_PIECE):
                    done += len(piece)
                    if done > MOST:
                        raise fault(path, f"unpacks to more than {MOST:,} bytes", "unpack it by hand")
                    file.write(piece)
            return target
    except DAMAGED as error:
        raise fault(path, f"damaged: {error}", f"get it again; packed files end in {', '.join(PACKED)}") from error
    except OSError as error:
        raise unreadable(path, error) from error
