"""`Shard`: the rows of a table that one server has, made when they are first touched."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from pdl import optim
from pdl.distributed.tables.family import Family
from pdl.distributed.tables.growing import Growing
from pdl.distributed.tables.keys import Initial
from pdl.dtype import Array
from pdl.errors import UsageError
from pdl.kernels import rows as kernels
from pdl.optim.optimizer import Batch
from pdl.tensor import Tensor

#: the optimisers that update some rows of a table by their own gradients alone
OPTIMIZERS: dict[str, type[Any]] = {
    each.__name__: each for each in (optim.SGD, optim.Adam, optim.AdamW, optim.Adagrad, optim.RMSprop, optim.Adadelta)
}


@dataclass(frozen=True)
class TableSpec:
    """What a table is: `columns` numbers a row, and rules.

    initial         what rows begin with
    optimizer       of `OPTIMIZERS`, with its options
    admit           pulls until a row is made and learned; before, its gradients are dropped. They are counted by a
                    count-min sketch (Cormode & Muthukrishnan, 2005), which may admit early, never late
    forget          updates after which a row that nobody touched begins anew
    rows_in_memory  most rows of a server in memory; those untouched for longest go to a file
    family          tables of one family are looked up by the same keys: a row is made in all of them, is found once for
                    all of them, and goes by the same rules
    """

    name: str
    columns: int
    initial: Initial = field(default_factory=Initial)
    optimizer: str = "SGD"
    options: Mapping[str, Any] = field(default_factory=dict)
    admit: int = 1
    forget: int | None = None
    rows_in_memory: int | None = None
    family: str | None = None

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
    """Rows by key (int64, 0 and more); a call takes each key once. Rows lie side by side in arrays that grow, where
    `family` says; `beside` is another table of it.

    pull(keys, out) -> [n, C]      rows, made where they are new and admitted; with `touch=False` nothing changes
    push(keys, gradients, lr)      one update of these rows
    write(keys, values)            values as given

    `take` and `update` are a pull and a push to places that the family has found; `add` is values += amounts there.
    """

    def __init__(self, spec: TableSpec, file: Path | None = None, beside: Shard | None = None) -> None:
        self.spec, self.dropped = spec, 0
        made = OPTIMIZERS[spec.optimizer]([Tensor(np.zeros((1, spec.columns), np.float32))])
        self._group: dict[str, Any] = made.param_groups[0]
        self._group.update(spec.options)
        self._optimizer = made
        self._values = Growing((spec.columns,), np.float32, 1)
        self.state: dict[str, Array] = {}
        self._states: dict[str, Growing] = {}  # their memory
        self._update(np.empty(0, np.int64), np.empty((0, spec.columns), np.float32), 0.0, 1)  # makes its state
        self.state.pop("step", None)
        for name, array in self.state.items():
            self._states[name] = memory = Growing(array.shape[1:], array.dtype, len(array))
            memory.array[...] = array
        self.state = {name: memory.array for name, memory in self._states.items()}
        self.family: Family = Family(spec, file) if beside is None else beside.family
        self.family.join(self)

    # -- the calls
    # -------------------------------------------------------------------------------------------------------
    def pull(self, keys: Array, *, touch: bool = True, out: Array | None = None) -> Array:
        """float32 [n, C], new or `out`."""
        return self.take(keys, self.family.pulled(keys, touch), touch, out)

    def push(self, keys: Array, gradients: Array, lr: float) -> None:
        """One update by `gradients` [n, C]. Rows that are not admitted are left out; they are counted in `dropped`."""
        self.family.updates += 1
        self.update(self.family.pushed(keys), gradients, lr)
        self.family.age()

    def add(self, places: Array, amounts: Array) -> None:
        """values += amounts [n, C] at `places`: what several have learned apart comes together."""
        self.values[places[places >= 0]] += amounts[places >= 0]

    def write(self, keys: Array, values: Array) -> None:
        """Put values [n, C] into rows, which are made."""
        places = self.family.touched(keys, count=False)  # first: arrays may grow
        self.values[places] = values

    def take(self, keys: Array, places: Array, touch: bool, out: Array | None = None) -> Array:
        """`pull` of rows at `places`; -1: it is not in memory."""
        rows = np.empty((len(keys), self.spec.columns), np.float32) if out is None else out
        kernels.take(rows, self.values, places, drop=True, name="pull")
        if (lacking := np.flatnonzero(places < 0)).size:
            rows[lacking] = self.spec.initial(keys[lacking], self.spec.columns)
            if not touch:
                known, records = self.family.cold_records(self, keys[lacking])
                rows[lacking[known]] = records[:, : self.spec.columns]
        return rows

    def update(self, places: Array, gradients: Array, lr: float) -> None:
        """`push` to rows at `places`; -1: it is left out."""
        if (known := places >= 0).all():
            gradients = np.ascontiguousarray(gradients, np.float32)
        else:
            self.dropped += int((~known).sum())
            places, gradients = places[known], np.ascontiguousarray(gradients[known], np.float32)
        self._update(places, gradients, lr, max(1, self.family.updates))

    @property
    def values(self) -> Array:
        """[room, C] float32, by place."""
        return self._values.array

    @property
    def bytes(self) -> int:
        """Memory of the rows in memory: values, state, and its share of the keys."""
        each = self.values[:1].nbytes + sum(array[:1].nbytes for array in self.state.values())
        return self.family.count * each + self.family.bytes // len(self.family.tables)

    def items(self) -> tuple[Array, Array]:
        """Keys and values of all rows that have been made."""
        return self.family.items(self)

    def _update(self, places: Array, gradients: Array, lr: float, count: int) -> None:
        batch = Batch()
        batch.params, batch.grads, batch.states = [self.values], [(places, gradients)], [self.state]
        self._group["lr"] = lr
        self._optimizer.update(batch, self._group, count, 1.0)

    # -- as its family asks
    # ----------------------------------------------------------------------------------------------
    @property
    def width(self) -> int:
        """Numbers of a row: values and state."""
        return self.spec.columns + sum(array[:1].size for array in self.state.values())

    def grow(self, room: int) -> None:
        """Room for so many rows, of values and state."""
        self._values.grow(room)
        self.state = {}  # else there are views
        for memory in self._states.values():
            memory.grow(room)
        self.state = {name: memory.array for name, memory in self._states.items()}

    def begin(self, keys: Array, again: Array, fresh: slice) -> None:
        """Rows as they begin: the first at places `again`, which have been others', and the rest at `fresh`, which are
        zeros."""
        self.values[again] = self.spec.initial(keys[: len(again)], self.spec.columns)
        self.spec.initial(keys[len(again) :], self.spec.columns, self.values[fresh])
        for name, array in self.state.items():
            first = float(self._group.get("initial_accumulator_value", 0.0)) if name == "sum" else 0.0
            array[again] = first
            if first:
                array[fresh] = first

    def records(self, places: Array) -> Array:
        """[n, width]: values and state."""
        parts = [self.values[places], *(array[places].reshape(len(places), -1) for array in self.state.values())]
        return np.concatenate(parts, axis=1)

    def restore(self, places: Array, records: Array) -> None:
        """Rows as `records` had them."""
        at = self.spec.columns
        self.values[places] = records[:, :at]
        for array in self.state.values():
            width = array[:1].size
            array[places] = records[:, at : at + width].reshape(len(places), *array.shape[1:])
            at += width


__all__ = ["OPTIMIZERS", "Shard", "TableSpec"]
