"""`Family`: which rows there are of tables that are looked up by the same keys, and where."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from pdl.distributed.tables.cold import ColdRows
from pdl.distributed.tables.keys import Places, same
from pdl.dtype import Array
from pdl.errors import UsageError
from pdl.hashing import hash_buckets

if TYPE_CHECKING:
    from pdl.distributed.tables.shard import Shard, TableSpec

_SKETCH = 1 << 18  # counters of each of the hashes
_HASHES = (11, 12, 13, 14)
_RECENT = 16  # pulls


class Family:
    """Keys, and the place that each has in the arrays of all `tables`.

        pulled(keys, touch)     the places of rows that are pulled, made where they are new and admitted; -1: not there
        pushed(keys)            those of rows that are pushed to

    `updates` counts the pushes. Rows are admitted, forgotten and kept in memory by the rules of the first table's
    `TableSpec`, which the others share; those that do not stay in memory go to `file`.
    """

    def __init__(self, rules: TableSpec, file: Path | None = None) -> None:
        self.rules, self.file, self.updates = rules, file, 0
        self.tables: list[Shard] = []
        self.places, self._free, self._end, self._room = Places(), np.empty(0, np.int64), 0, 64
        self._recent: deque[tuple[Array, Array]] = deque(maxlen=_RECENT)  # keys of the latest pulls, and their places
        # updates when a row was last touched, where somebody asks
        asked = (rules.forget or rules.rows_in_memory) is not None
        self._stamps = np.zeros(self._room, np.int64) if asked else None
        self._sketch = np.zeros((len(_HASHES), _SKETCH), np.uint16) if rules.admit > 1 else None
        self.cold: ColdRows | None = None
        if rules.rows_in_memory is not None and file is None:
            raise UsageError(f"table {rules.name}: rows_in_memory needs a folder for the other rows")

    def join(self, table: Shard) -> None:
        """Take in a table, before there are rows."""
        for rule in ("admit", "forget", "rows_in_memory"):
            if getattr(table.spec, rule) != getattr(self.rules, rule):
                raise UsageError(
                    f"tables {self.rules.name} and {table.spec.name} are looked up by the same keys, so {rule} must be "
                    "the same"
                )
        table.grow(self._room)
        self.tables.append(table)
        if self.rules.rows_in_memory is not None and self.file is not None:
            self.cold = ColdRows(self.file, self.width)

    @property
    def name(self) -> str:
        """That of its tables."""
        return ", ".join(table.spec.name for table in self.tables)

    @property
    def width(self) -> int:
        """Numbers of a row, in all tables."""
        return sum(table.width for table in self.tables)

    @property
    def rows(self) -> int:
        """Rows that have been made, wherever they are."""
        return self.places.count + (0 if self.cold is None else self.cold.places.count)

    @property
    def count(self) -> int:
        """Places in memory that have been used."""
        return self._end

    @property
    def bytes(self) -> int:
        """Memory of the keys."""
        return self.places.bytes

    # -- where rows are
    # --------------------------------------------------------------------------------------------------
    def pulled(self, keys: Array, touch: bool = True) -> Array:
        """Places int64 [n]; -1 where a row is not in memory."""
        if not touch:
            return self.places.find(keys)
        found = self.touched(keys, count=True)
        if self._sketch is None or (found >= 0).all():
            self._recent.append((keys.copy(), found))
        return found

    def pushed(self, keys: Array) -> Array:
        """Those of keys that were pulled together not long ago are known; -1: not admitted."""
        for at, (held, places) in enumerate(self._recent):
            if same(held, keys):
                del self._recent[at]
                if self._stamps is not None:
                    self._stamps[places] = self.updates
                return places
        return self.touched(keys, count=False)

    def touched(self, keys: Array, *, count: bool) -> Array:
        """The places of rows in memory, where they come to; -1 for those that are not admitted."""
        found = self.places.find(keys)
        lacking = np.flatnonzero(found < 0)
        if len(lacking):
            if self.cold is not None:
                lies = self.cold.find(keys[lacking])
                back = lacking[lies >= 0]
                found[back] = self._made(keys[back], self.cold.take(keys[back], lies[lies >= 0]))
                lacking = lacking[lies < 0]
            if self._sketch is not None:
                lacking = lacking[self._seen(keys[lacking], count) >= self.rules.admit]
            found[lacking] = self._made(keys[lacking], None)
        if self._stamps is not None:
            self._stamps[found[found >= 0]] = self.updates
        if self.cold is not None and self.places.count > (most := self.rules.rows_in_memory or 0):
            self._spill(max(most * 3 // 4, len(keys)), found)
        return found

    def cold_records(self, table: Shard, keys: Array) -> tuple[Array, Array]:
        """Bool [n]: which keys are in the file, and their records of a table."""
        if self.cold is None:
            return np.zeros(len(keys), bool), np.empty((0, table.width), np.float32)
        lies = self.cold.find(keys)
        return lies >= 0, self.cold.read(lies[lies >= 0])[:, self._columns(table)]

    def age(self) -> None:
        """Forget what nobody has touched, now and then."""
        forget = self.rules.forget
        if forget is None or self.updates % max(1, forget // 4):
            return
        keys, places = self.places.items()
        self._leave(keys, places, self._last(places) < self.updates - forget)
        if self.cold is not None:
            self.cold.forget(self.updates - forget)

    def _columns(self, table: Shard) -> slice:
        """The numbers of a table in a record."""
        before = self.tables[: self.tables.index(table)]
        begin = sum(each.width for each in before)
        return slice(begin, begin + table.width)

    def _made(self, keys: Array, records: Array | None) -> Array:
        """Places for new rows: as they begin, or of records [n, width] of the file."""
        n = len(keys)
        again, self._free = self._free[:n], self._free[n:]
        if (fresh := n - len(again)) > self._room - self._end:
            self._grow(max(4 * self._room, self._end + fresh))  # memory that nobody touches costs nothing
        places = np.concatenate([again, np.arange(self._end, self._end + fresh)])
        begin, self._end = self._end, self._end + fresh
        for table in self.tables:
            if records is None:
                table.begin(keys, again, slice(begin, self._end))
            else:
                table.restore(places, records[:, self._columns(table)])
        self.places.put(keys, places)
        return places

    def _grow(self, room: int) -> None:
        if self._stamps is not None:
            self._stamps = np.concatenate([self._stamps, np.zeros(room - len(self._stamps), np.int64)])
        for table in self.tables:
            table.grow(room)
        self._room = room

    def _seen(self, keys: Array, count: bool) -> Array:
        """How often keys were pulled, this time included if it is to `count`."""
        assert self._sketch is not None
        at = [hash_buckets(keys, _SKETCH, seed=seed) for seed in _HASHES]
        seen = np.min([row[i] for row, i in zip(self._sketch, at, strict=True)], axis=0).astype(np.int64)
        if not count:
            return np.asarray(seen)
        seen = np.minimum(seen + 1, np.iinfo(np.uint16).max)
        for row, i in zip(self._sketch, at, strict=True):
            np.maximum.at(row, i, seen.astype(np.uint16))  # no more than needed: Estan & Varghese, 2002
        return np.asarray(seen)

    def _spill(self, kept: int, used: Array) -> None:
        """Move all but the `kept` rows touched last to the file; not those `used` now."""
        keys, places = self.places.items()
        if (gone := len(keys) - kept) <= 0:
            return
        stamps = self._last(places)
        order = np.where(np.isin(places, used), np.iinfo(np.int64).max, stamps)
        old = np.zeros(len(keys), bool)
        old[np.argpartition(order, gone - 1)[:gone]] = True
        assert self.cold is not None
        self.cold.put(keys[old], self._records(places[old]), stamps[old])
        self._leave(keys, places, old)

    def _leave(self, keys: Array, places: Array, gone: Array) -> None:
        if gone.any():
            self._recent.clear()
            self.places.drop(keys[gone])
            self._free = np.concatenate([self._free, places[gone]])

    def _last(self, places: Array) -> Array:
        """When rows were last touched."""
        return np.full(len(places), self.updates) if self._stamps is None else self._stamps[places]

    def _records(self, places: Array) -> Array:
        return np.concatenate([table.records(places) for table in self.tables], axis=1)

    # -- keeping -------------------------------------------------------------------------------------------------------
    def items(self, table: Shard) -> tuple[Array, Array]:
        """Keys and values of all rows of a table."""
        keys, places = self.places.items()
        if self.cold is None:
            return keys, table.values[places]
        others, lies = self.cold.places.items()
        values = self.cold.read(lies)[:, self._columns(table)][:, : table.spec.columns]
        return np.concatenate([keys, others]), np.concatenate([table.values[places], values])

    def state_dict(self) -> dict[str, Array]:
        """All rows with their state, and the counters, as arrays."""
        keys, places = self.places.items()
        records, stamps = self._records(places), self._last(places)
        if self.cold is not None:
            others, lies = self.cold.places.items()
            keys, records = np.concatenate([keys, others]), np.concatenate([records, self.cold.read(lies)])
            stamps = np.concatenate([stamps, self.cold.stamps[lies]])
        counters = np.array([self.updates, *(table.dropped for table in self.tables)])
        tree = {"keys": keys, "records": records, "stamps": stamps, "updates": counters}
        return tree if self._sketch is None else {**tree, "sketch": self._sketch}

    def load_state_dict(self, tree: Mapping[str, Array]) -> None:
        """Stand where `state_dict` was taken. UsageError where the rows are not those of these tables."""
        if tree["records"].shape[1:] != (self.width,) or len(tree["updates"]) != 1 + len(self.tables):
            raise UsageError(
                f"table {self.name}: what was kept has {tree['records'].shape[1]} numbers a row, not {self.width}; the "
                "optimiser or the columns are others"
            )
        if self.places.count:
            raise UsageError(f"table {self.name}: load what was kept before anything is touched")
        self.updates = int(tree["updates"][0])
        for table, dropped in zip(self.tables, tree["updates"][1:], strict=True):
            table.dropped = int(dropped)
        if self._sketch is not None and "sketch" in tree:
            self._sketch[...] = tree["sketch"]
        order = np.argsort(-tree["stamps"], kind="stable")
        hot = len(order) if self.cold is None else min(len(order), self.rules.rows_in_memory or 0)
        near, far = order[:hot], order[hot:]
        places = self._made(tree["keys"][near], tree["records"][near])
        if self._stamps is not None:
            self._stamps[places] = tree["stamps"][near]
        if self.cold is not None:
            self.cold.put(tree["keys"][far], tree["records"][far], tree["stamps"][far])


__all__ = ["Family"]
