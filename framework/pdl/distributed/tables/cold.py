"""`ColdRows`: rows in a file, for those that are seldom touched."""

from __future__ import annotations

import mmap
import os
import weakref
from pathlib import Path

import numpy as np

from pdl.distributed.tables.keys import Places
from pdl.dtype import Array


class ColdRows:
    """Records of `width` float32 numbers by key, in a file that is mapped into memory and grows; keys stay in memory.

    The file is scratch of this process, without a name as soon as it is open: snapshots hold its rows.
    """

    def __init__(self, path: Path, width: int) -> None:
        self.width, self.places = width, Places()
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
        weakref.finalize(self, os.close, self._file)
        path.unlink()
        self._room, self._end, self._free = 0, 0, np.empty(0, np.int64)
        self.stamps = np.zeros(0, np.int64)
        self._rows: Array = np.zeros((0, width), np.float32)

    def find(self, keys: Array) -> Array:
        """Where their records lie; -1 for those that are not here."""
        return self.places.find(keys)

    def read(self, lies: Array) -> Array:
        """The records there [n, width]."""
        return np.array(self._rows[lies])

    def take(self, keys: Array, lies: Array) -> Array:
        """The records of these keys, which leave."""
        records = self.read(lies)
        self._leave(keys, lies)
        return records

    def put(self, keys: Array, records: Array, stamps: Array) -> None:
        """Records [n, width] of keys that are not here, and when they were last touched."""
        n = len(keys)
        again, self._free = self._free[:n], self._free[n:]
        fresh = n - len(again)
        if self._end + fresh > self._room:
            self._room = max(2 * self._room, self._end + fresh, 1024)
            size = self._room * self.width * 4
            os.ftruncate(self._file, size)
            self._rows = np.frombuffer(mmap.mmap(self._file, size), np.float32).reshape(-1, self.width)
            self.stamps = np.concatenate([self.stamps, np.zeros(self._room - len(self.stamps), np.int64)])
        lies = np.concatenate([again, np.arange(self._end, self._end + fresh)])
        self._end += fresh
        self._rows[lies], self.stamps[lies] = records, stamps
        self.places.put(keys, lies)

    def forget(self, before: int) -> None:
        """Drop rows that were last touched before."""
        keys, lies = self.places.items()
        gone = self.stamps[lies] < before
        self._leave(keys[gone], lies[gone])

    def _leave(self, keys: Array, lies: Array) -> None:
        if len(keys):
            self.places.drop(keys)
            self._free = np.concatenate([self._free, lies])


__all__ = ["ColdRows"]
