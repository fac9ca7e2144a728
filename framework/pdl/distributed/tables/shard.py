"""`Shard`: the rows of a table that one server has, made when they are first touched."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pdl import optim
from pdl.distributed.tables.cold import ColdRows
from pdl.distributed.tables.growing import Growing
from pdl.distributed.tables.keys import Initial, Places
from pdl.dtype import Array
from pdl.errors import UsageError
from pdl.hashing import hash_buckets
from pdl.kernels import rows as kernels
from pdl.optim.optimizer import Batch
from pdl.tensor import Tensor

#: the optimisers that update some rows of a table by their own gradients alone
OPTIMIZERS: dict[str, type[Any]] = {
    each.__name__: each for each in (optim.SGD, optim.Adam, optim.AdamW, optim.Adagrad, optim.RMSprop, optim.Adadelta)
}
_SKETCH = 1 << 18  # counters of each of the hashes
_HASHES = (11, 12, 13, 14)
_RECENT = 16  # pulls


@dataclass(frozen=True)
class TableSpec:
    """What a table is: `columns` numbers a row, and rules.

    initial         what rows begin with
    optimizer       of `OPTIMIZERS`, with its options
    admit           pulls until a row is made and learned; before, its gradients are dropped. They are counted by a
                    count-min sketch (Cormode & Muthukrishnan, 2005), which may admit early, never late
    forget          updates after which a row that nobody touched begins anew
    rows_in_memory  most rows of a server in memory; those untouched for longest go to a file
    """

    name: str
    columns: int
    initial: Initial = field(default_factory=Initial)
    optimizer: str = "SGD"
    options: Mapping[str, Any] = field(default_factory=dict)
    admit: int = 1
    forget: int | None = None
    rows_in_memory: int | None = None

    def __post_init__(self) -> None:
        if self.optimizer not in OPTIMIZERS:
            raise UsageError(
                f"table {self.name}: {self.optimizer} is no optimiser of rows; choose {', '.join(OPTIMIZERS)}"
            )

    def plain(self) -> dict[str, Any]:
        """As numbers and texts."""
        return asdict(self)

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> TableSpec:
        """From `plain`."""
        return cls(**{**plain, "initial": Initial(**plain["initial"])})


class Shard:
    """Rows by key (int64, 0 and more); a call takes each key once. Rows lie side by side in arrays that grow.

    pull(keys, out) -> [n, C]      rows, made where they are new and admitted; with `touch=False` nothing changes
    push(keys, gradients, lr)      one update of these rows
    add(keys, amounts)             values += amounts
    write(keys, values)            values as given
    """

    def __init__(self, spec: TableSpec, file: Path | None = None) -> None:
        self.spec, self.updates, self.dropped = spec, 0, 0
        made = OPTIMIZERS[spec.optimizer]([Tensor(np.zeros((1, spec.columns), np.float32))])
        self._group: dict[str, Any] = made.param_groups[0]
        self._group.update(spec.options)
        self._optimizer = made
        self.places, self._free, self._end = Places(), np.empty(0, np.int64), 0
        self._values = Growing((spec.columns,), np.float32)
        self.state: dict[str, Array] = {}
        self._states: dict[str, Growing] = {}  # their memory
        self._recent: deque[tuple[Array, Array]] = deque(maxlen=_RECENT)  # keys of the latest pulls, and their places
        # updates when a row was last touched, where somebody asks
        self._stamps = np.zeros(0, np.int64) if (spec.forget or spec.rows_in_memory) is not None else None
        self._grow(64)
        self._update(np.empty(0, np.int64), np.empty((0, spec.columns), np.float32), 0.0)  # makes its state
        self.state.pop("step", None)
        for name, array in self.state.items():
            self._states[name] = memory = Growing(array.shape[1:], array.dtype, len(array))
            memory.array[...] = array
        self.state = {name: memory.array for name, memory in self._states.items()}
        self._sketch = np.zeros((len(_HASHES), _SKETCH), np.uint16) if spec.admit > 1 else None
        self.cold: ColdRows | None = None
        if spec.rows_in_memory is not None:
            if file is None:
                raise UsageError(f"table {spec.name}: rows_in_memory needs a folder for the other rows")
            self.cold = ColdRows(file, self._widths())

    # -- the calls
    # -------------------------------------------------------------------------------------------------------
    def pull(self, keys: Array, *, touch: bool = True, out: Array | None = None) -> Array:
        """float32 [n, C], new or `out`."""
        rows = np.empty((len(keys), self.spec.columns), np.float32) if out is None else out
        found = self._touched(keys, count=True) if touch else self.places.find(keys)
        if (lacking := np.flatnonzero(found < 0)).size:
            found[lacking] = 0
        kernels.take(rows, self.values, found, name="pull")
        if lacking.size:
            rows[lacking] = self.spec.initial(keys[lacking], self.spec.columns)
            if not touch and self.cold is not None:
                lies = self.cold.find(keys[lacking])
                rows[lacking[lies >= 0]] = self.cold.read(lies[lies >= 0])[:, : self.spec.columns]
        elif touch:
            self._recent.append((keys.copy(), found))
        return rows

    def push(self, keys: Array, gradients: Array, lr: float) -> None:
        """One update by `gradients` [n, C]. Rows that are not admitted are left out; they are counted in `dropped`."""
        self.updates += 1
        places = self._pulled(keys)
        if places is None:
            places = self._touched(keys, count=False)
            if not (known := places >= 0).all():
                self.dropped += int((~known).sum())
                places, gradients = places[known], gradients[known]
        elif self._stamps is not None:
            self._stamps[places] = self.updates
        self._update(places, np.ascontiguousarray(gradients, np.float32), lr)
        if self.spec.forget is not None and self.updates % max(1, self.spec.forget // 4) == 0:
            self._age(self.spec.forget)

    def _pulled(self, keys: Array) -> Array | None:
        """The places of keys that were pulled together not long ago."""
        for at, (held, places) in enumerate(self._recent):
            if len(held) == len(keys) and np.array_equal(held, keys):
                del self._recent[at]
                return places
        return None

    def add(self, keys: Array, amounts: Array) -> None:
        """values += amounts [n, C]: what several have learned apart comes together."""
        self.updates += 1
        places = self._touched(keys, count=False)
        self.values[places[places >= 0]] += amounts[places >= 0]

    def write(self, keys: Array, values: Array) -> None:
        """Put values [n, C] into rows, which are made."""
        places = self._touched(keys, count=False)  # first: arrays may grow
        self.values[places] = values

    @property
    def values(self) -> Array:
        """[room, C] float32, by place."""
        return self._values.array

    @property
    def rows(self) -> int:
        """Rows that have been made, wherever they are."""
        return self.places.count + (0 if self.cold is None else self.cold.places.count)

    @property
    def bytes(self) -> int:
        """Memory of the rows in memory: values, state, keys."""
        each = self.values[:1].nbytes + sum(array[:1].nbytes for array in self.state.values()) + 8
        return self._end * each + self.places.bytes

    # -- rows
    # ------------------------------------------------------------------------------------------------------------
    def _touched(self, keys: Array, *, count: bool) -> Array:
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
                lacking = lacking[self._seen(keys[lacking], count) >= self.spec.admit]
            found[lacking] = self._made(keys[lacking], None)
        if self._stamps is not None:
            self._stamps[found[found >= 0]] = self.updates
        if self.cold is not None and self.places.count > (most := self.spec.rows_in_memory or 0):
            self._spill(max(most * 3 // 4, len(keys)), found)
        return found

    def _made(self, keys: Array, records: Array | None) -> Array:
        """Places for new rows: as they begin, or of records [n, width] of the file."""
        n = len(keys)
        again, self._free = self._free[:n], self._free[n:]
        if (fresh := n - len(again)) > len(self.values) - self._end:
            self._grow(max(4 * len(self.values), self._end + fresh))  # memory that nobody touches costs nothing
        places = np.concatenate([again, np.arange(self._end, self._end + fresh)])
        begin, self._end = self._end, self._end + fresh
        if records is None:
            self.values[again] = self.spec.initial(keys[: len(again)], self.spec.columns)
            self.spec.initial(keys[len(again) :], self.spec.columns, self.values[begin : self._end])
            for name, array in self.state.items():
                array[again] = first = self._first(name)
                if first:
                    array[begin : self._end] = first
        else:
            at = self.spec.columns
            self.values[places] = records[:, :at]
            for array in self.state.values():
                width = array[:1].size
                array[places] = records[:, at : at + width].reshape(n, *array.shape[1:])
                at += width
        self.places.put(keys, places)
        return places

    def _grow(self, room: int) -> None:
        """Room for so many rows, of values and state."""
        self._values.grow(room)
        if self._stamps is not None:
            self._stamps = np.concatenate([self._stamps, np.zeros(room - len(self._stamps), np.int64)])
        self.state = {}  # else there are views
        for memory in self._states.values():
            memory.grow(room)
        self.state = {name: memory.array for name, memory in self._states.items()}

    def _update(self, places: Array, gradients: Array, lr: float) -> None:
        batch, count = Batch(), max(1, self.updates)
        batch.params, batch.grads, batch.states = [self.values], [(places, gradients)], [self.state]
        self._group["lr"] = lr
        self._optimizer.update(batch, self._group, count, 1.0)

    def _first(self, name: str) -> float:
        return float(self._group.get("initial_accumulator_value", 0.0)) if name == "sum" else 0.0

    def _widths(self) -> int:
        return self.spec.columns + sum(array[:1].size for array in self.state.values())

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

    def _age(self, updates: int) -> None:
        """Forget rows untouched for so many updates."""
        keys, places = self.places.items()
        self._leave(keys, places, self._last(places) < self.updates - updates)
        if self.cold is not None:
            self.cold.forget(self.updates - updates)

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
        parts = [self.values[places], *(array[places].reshape(len(places), -1) for array in self.state.values())]
        return np.concatenate(parts, axis=1)

    # -- keeping -------------------------------------------------------------------------------------------------------
    def items(self) -> tuple[Array, Array]:
        """Keys and values of all rows that have been made."""
        keys, places = self.places.items()
        if self.cold is None:
            return keys, self.values[places]
        others, lies = self.cold.places.items()
        values = self.cold.read(lies)[:, : self.spec.columns]
        return np.concatenate([keys, others]), np.concatenate([self.values[places], values])

    def state_dict(self) -> dict[str, Array]:
        """All rows with their state, and the counters, as arrays."""
        keys, places = self.places.items()
        records, stamps = self._records(places), self._last(places)
        if self.cold is not None:
            others, lies = self.cold.places.items()
            keys, records = np.concatenate([keys, others]), np.concatenate([records, self.cold.read(lies)])
            stamps = np.concatenate([stamps, self.cold.stamps[lies]])
        tree = {"keys": keys, "records": records, "stamps": stamps, "updates": np.array([self.updates, self.dropped])}
        return tree if self._sketch is None else {**tree, "sketch": self._sketch}

    def load_state_dict(self, tree: Mapping[str, Array]) -> None:
        """Stand where `state_dict` was taken. UsageError where the rows are not those of this table."""
        if tree["records"].shape[1:] != (self._widths(),):
            raise UsageError(
                f"table {self.spec.name}: what was kept has {tree['records'].shape[1]} numbers a row, not "
                f"{self._widths()}; the optimiser or the columns are others"
            )
        if self.places.count:
            raise UsageError(f"table {self.spec.name}: load what was kept before anything is touched")
        self.updates, self.dropped = (int(n) for n in tree["updates"])
        if self._sketch is not None and "sketch" in tree:
            self._sketch[...] = tree["sketch"]
        order = np.argsort(-tree["stamps"], kind="stable")
        hot = len(order) if self.cold is None else min(len(order), self.spec.rows_in_memory or 0)
        near, far = order[:hot], order[hot:]
        places = self._made(tree["keys"][near], tree["records"][near])
        if self._stamps is not None:
            self._stamps[places] = tree["stamps"][near]
        if self.cold is not None:
            self.cold.put(tree["keys"][far], tree["records"][far], tree["stamps"][far])


__all__ = ["OPTIMIZERS", "Shard", "TableSpec"]
