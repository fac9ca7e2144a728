"""Sets of lines in LMDB, in the form of CRNN and of the deep-text-recognition-benchmark: `num-samples`, and from 1 on
`image-000000001` (the content of an image file) and `label-000000001` (UTF-8)."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any

from pdl.data.faults import fault, unreadable
from pdl.errors import PackageError

FILE = "data.mdb"
ENDINGS = (".mdb", ".lmdb")
FORM = (
    "expected keys num-samples, image-000000001, label-000000001, ..., as of CRNN and deep-text-recognition-benchmark"
)
DAMAGED = "make the set anew, or copy it again"

MOST_DIGITS = 18  # of num-samples

Images = Callable[[int], bytes]
"""From the number of a line to the content of its image."""

_OPENED: dict[Path, tuple[tuple[int, ...], Any]] = {}
_LOCK = Lock()


def file_of(path: Path) -> Path | None:
    """The file of an LMDB set: of a folder its data.mdb, or the path itself where its name ends in .mdb or .lmdb; None
    where there is none."""
    if path.is_dir():
        return path / FILE if (path / FILE).is_file() else None
    return path if path.suffix in ENDINGS and path.is_file() else None


def labels(file: Path) -> Iterator[str]:
    """The texts of all lines of a set, in order. DataFault for one that is not of this form, or damaged."""
    with _transaction(file, _opened(file, None), None) as get:
        said = get(b"num-samples")
        if said is None:
            raise fault(file, "has no key num-samples", FORM)
        if not said.isdigit() or len(said) > MOST_DIGITS:
            raise fault(file, f"num-samples is {said[:40]!r}, which is no number", FORM)
        for number in range(1, int(said) + 1):
            label = get(b"label-%09d" % number)
            if label is None:
                raise fault(file, f"has no key label-{number:09d}, but num-samples is {int(said):,}", DAMAGED)
            try:
                yield label.decode("utf-8")
            except UnicodeDecodeError as error:
                raise fault(file, f"label-{number:09d} is not UTF-8 text", "write it as UTF-8") from error


@contextmanager
def reading(file: Path, *, index: int | None = None) -> Iterator[Images]:
    """A function from the numbers of a set's lines to the content of their images: DataFault where one is not there.
    Any number of threads read at once, and processes that were forked go on with what their parent opened: nothing is
    locked or written."""
    known = _OPENED.get(file)
    with _transaction(file, _opened(file, index) if known is None else known[1], index) as get:

        def image(number: int) -> bytes:
            found = get(b"image-%09d" % number)
            if found is None:
                raise fault(name_of(file, number), "the set has no such key", DAMAGED, index=index)
            return bytes(found)

        yield image


def name_of(file: Path, number: int) -> Path:
    """What an image of a set is called: the set, and its key."""
    return (file.parent if file.name == FILE else file) / f"image-{number:09d}"


@contextmanager
def _transaction(file: Path, environment: Any, index: int | None) -> Iterator[Any]:
    """A function from keys to values."""
    errors = _library(file).Error
    try:
        with environment.begin() as made:
            yield made.get
    except errors as error:
        raise fault(file, f"the LMDB set is damaged: {error}", DAMAGED, index=index) from error


def _opened(file: Path, index: int | None) -> Any:
    """The set, opened once in a process, as LMDB asks for; anew where the file has changed."""
    library = _library(file)
    try:
        path = file.resolve(strict=True)
        facts = path.stat()
    except OSError as error:
        raise unreadable(file, error, index=index) from error
    version = (facts.st_ino, facts.st_size, facts.st_mtime_ns)
    with _LOCK:
        known, environment = _OPENED.get(path, (None, None))
        if known != version:
            if environment is not None:
                for name in [name for name, (_, each) in _OPENED.items() if each is environment]:
                    del _OPENED[name]
                environment.close()
            environment = _checked(library, path, facts.st_size, index)
        _OPENED[path] = _OPENED[file] = (version, environment)
        return environment


def _checked(library: Any, path: Path, size: int, index: int | None) -> Any:
    """A set, opened; DataFault for what is none, or is not whole."""
    folder = path.name == FILE
    try:
        # without locks it may lie where nothing can be written; read-ahead would read many pages for each line of a set
        # that is read in random order
        made = library.open(
            str(path.parent if folder else path), subdir=folder, readonly=True, lock=False, readahead=False,
            meminit=False,
        )  # fmt: skip
    except library.Error as error:
        raise fault(path, f"cannot be opened as an LMDB set: {error}", DAMAGED, index=index) from error
    needed = (made.info()["last_pgno"] + 1) * made.stat()["psize"]
    if needed > size:  # the file is mapped: reading behind its end would end the process
        made.close()
        what = f"the LMDB set is cut off: {size:,} bytes of {needed:,} are there"
        raise fault(path, what, DAMAGED, index=index)
    return made


def _library(file: Path) -> Any:
    try:
        return importlib.import_module("lmdb")
    except ImportError:
        raise PackageError(
            f"{file}: LMDB sets are read by lmdb, which is not installed; pip install 'pdl-ocr[lmdb]'"
        ) from None
