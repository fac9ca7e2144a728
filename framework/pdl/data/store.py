"""Where data sets are on disk, and the cache of decoded arrays."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np

from pdl.data.faults import DataFault, Fault, unreadable
from pdl.files import cache_root, data_root, open_file, replacing, under_roots
from pdl.runtime.arrays import read_array

SHOWN = 4  # places that a message lists


def locate(root: str | Path) -> Path:
    """`root` as given; if it is relative and not there, the same under PDL_DATA when that exists."""
    path = Path(root).expanduser()
    return next((place for place in (path, *under_roots(path)) if place.exists()), path)


def to_get(address: str) -> str:
    """The advice for data that is not there: `address` is a name of `pdl data list` such as "cv/cifar10", or words."""
    return f"get it from {address}" if ":" in address or " " in address else f"fetch it: pdl data get {address}"


def find(name: str, places: Iterable[str | Path], *, address: str) -> Path:
    """The first of `places` (relative ones: see `under_roots`) that exists.

    Raises DataFault that says where it was looked for (the first few places), and how to get it: `address` as in
    `to_get`.
    """
    names = [str(place) for place in places]
    tried = [path for place in names for path in under_roots(place)]
    found = next((path for path in tried if path.exists()), None)
    if found is not None:
        return found
    few = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
    what = f"{name} is not there; looked in {data_root()} for {few}"
    raise DataFault(Fault(str(tried[0]), None, what, f"{to_get(address)}; or set PDL_DATA or root="))


def file_hash(path: Path) -> str:
    """sha256 of a file's bytes, in hex."""
    try:
        with open_file(path) as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise unreadable(path, error) from error


def cached_arrays(key: str, names: Iterable[str], build: Callable[[], Mapping[str, np.ndarray]]
                  ) -> dict[str, np.ndarray]:
    """The arrays `names` of the cache entry `key` (a hash of the content they come from).

    They are read from <cache>/decoded/<key>.<name>.npy; if one is missing or damaged, `build()` makes them all and
    they are written there, atomically. Where the cache cannot be written to the arrays are built each time.
    """
    names, folder = list(names), cache_root() / "decoded"
    loaded = {name: _load(folder / f"{key}.{name}.npy") for name in names}
    if all(array is not None for array in loaded.values()):
        return {name: array for name, array in loaded.items() if array is not None}
    built = dict(build())
    with suppress(OSError):  # read-only or full
        for name, array in built.items():
            with replacing(folder / f"{key}.{name}.npy") as part, part.open("xb") as file:
                np.save(file, array, allow_pickle=False)
    return {name: built[name] for name in names}


def _load(path: Path) -> np.ndarray | None:
    try:
        return read_array(path)
    except (OSError, ValueError):  # not there, or damaged: it is built again
        return None
