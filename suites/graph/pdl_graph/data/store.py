"""Where files of graphs are, and a cache of what all splits read from them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from pdl.data.faults import DataFault, Fault
from pdl.data.store import data_root, to_get, under_roots

T = TypeVar("T")
KEPT = 8  # things read that stay in memory

_shared: OrderedDict[Hashable, Any] = OrderedDict()
_lock = Lock()


def locate(
    path: str | Path,
    address: str = "the place you have it from",
    *,
    also: Sequence[str] = (),
    endings: Sequence[str] = (),
) -> Path:
    """A file or folder as given, or below PDL_DATA, or below its folder graph (and those of `also`); one of `endings`
    may be left out.

    DataFault, with the places and how to get it (`address`: see `pdl.data.to_get`), where it is in none of them.
    """
    given = Path(path).expanduser()
    inside = [given, Path("graph") / given, *(Path("graph") / each for each in also)]
    places = [given, *(place for each in inside for place in under_roots(each))]
    for place in places:
        for ending in ("", *endings):
            found = place.with_name(place.name + ending) if ending else place
            if found.exists():
                return found
    looked = dict.fromkeys(str(place) for place in (given, *(data_root() / each for each in inside)))
    few = ", ".join(looked)
    raise DataFault(
        Fault(list(looked)[-1], None, f"{given.name} is not there; looked for {few}",
              f"{to_get(address)}, or put it in one of these places, or set PDL_DATA or path=")
    )  # fmt: skip


def shared(path: Path, about: Hashable, make: Callable[[], T]) -> T:
    """What `make` reads from a file or folder; the same object again for the same `about` while that is unchanged.

    The splits of a data set share their graph so. The last few stay in memory.
    """
    key = (str(path.resolve()), _state(path), about)
    with _lock:
        if key not in _shared:
            _shared[key] = make()
            while len(_shared) > KEPT:
                _shared.popitem(last=False)
        _shared.move_to_end(key)
        found: T = _shared[key]
    return found


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Faults raised inside name the file."""
    try:
        yield
    except DataFault as error:
        raise error.at(path=str(path)) from error


def _state(path: Path) -> tuple[tuple[str, int, int], ...]:
    """Names, sizes and times of a file, or of the files of a folder."""
    files = sorted(path.iterdir()) if path.is_dir() else [path]
    return tuple((each.name, each.stat().st_size, each.stat().st_mtime_ns) for each in files)
