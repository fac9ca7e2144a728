"""Where data sets are on disk, and the cache of decoded arrays."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import numpy as np

from pdl.data.faults import DataFault, Fault, unreadable
from pdl.files import open_file, replacing
from pdl.runtime.arrays import read_array

SHOWN = 4  # places that a message lists


def data_root() -> Path:
    """The folder of all data sets: the environment variable PDL_DATA, or ~/.cache/pdl/data."""
    return Path(os.environ.get("PDL_DATA") or Path.home() / ".cache" / "pdl" / "data").expanduser()


def find(name: str, places: Iterable[str | Path], *, address: str) -> Path:
    """The first of `places` (relative ones under `data_root()`) that exists.

    Raises DataFault that says where it was looked for (the first few places), and the canonical `address` to download
    from.
    """
    names, root = [str(place) for place in places], data_root()
    for place in names:
        if (root / place).exists():
            return root / place
    few = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
    raise DataFault(Fault(str(root / names[0]), None, f"{name} is not there; looked in {root} for {few}",
                          f"download it from {address} into one of these, or set PDL_DATA or root="))


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

    They are read from `<cache>/<key>.<name>.npy`; if one is missing or damaged, `build()` makes them all and they are
    written there, atomically. The cache is PDL_DATA/cache, or ~/.cache/pdl/data/cache where that is read-only; where
    neither can be written the arrays are simply built each time.
    """
    names = list(names)
    folders = [data_root() / "cache", Path.home() / ".cache" / "pdl" / "data" / "cache"]
    for folder in folders:
        loaded = {name: _load(folder / f"{key}.{name}.npy") for name in names}
        if all(array is not None for array in loaded.values()):
            return {name: array for name, array in loaded.items() if array is not None}
    built = dict(build())
    for folder in folders:
        try:
            if folder.parent.exists() and not folder.parent.stat().st_mode & 0o222:
                continue  # meant to stay as it is, even where root could write
            folder.mkdir(parents=True, exist_ok=True)
            for name, array in built.items():
                with replacing(folder / f"{key}.{name}.npy") as part, part.open("xb") as file:
                    np.save(file, array, allow_pickle=False)
            break
        except OSError:  # read-only or full: the next place, or no cache
            continue
    return {name: built[name] for name in names}


def _load(path: Path) -> np.ndarray | None:
    try:
        return read_array(path)
    except (OSError, ValueError):  # not there, or damaged: it is built again
        return None
