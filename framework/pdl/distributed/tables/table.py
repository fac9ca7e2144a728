"""`SparseTable`: one table on servers, for programs of one's own; `LocalTable`: the same in this process."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from pdl.distributed.tables import actors
from pdl.distributed.tables.client import Here, Server, TableClient
from pdl.distributed.tables.keys import Initial
from pdl.distributed.tables.server import Order, TableServer
from pdl.distributed.tables.shard import TableSpec
from pdl.dtype import Array
from pdl.errors import ShapeError
from pdl.kernels import rows as kernels

_NAME = "table"


class _Table:
    def __init__(self, spec: TableSpec, servers: Sequence[Server], **options: Any) -> None:
        self.spec, self.lr = spec, float(spec.options.get("lr", 0.01))
        self.client = TableClient([spec], servers, **options)
        self.client.start()

    def pull(self, keys: Any) -> Array:
        """Rows float32 [..., C] of keys, integers [...] from 0 on, repeated or not; new ones are made."""
        index = self._keys(keys)
        out = np.empty((index.size, self.spec.columns), np.float32)
        self.client.read(_NAME, index.reshape(-1), out)
        return out.reshape(*index.shape, self.spec.columns)

    def push(self, keys: Any, gradients: Array, *, lr: float | None = None) -> None:
        """One step: gradients [..., C], those of a key summed, change its row by the table's optimiser."""
        index = self._keys(keys).reshape(-1)
        flat = np.ascontiguousarray(gradients, np.float32).reshape(index.size, -1)
        keys, summed = np.empty_like(index), np.empty_like(flat)
        kernels.combine(keys, summed, index, flat)
        count = int(np.count_nonzero(keys >= 0))
        self.client.push({_NAME: (keys[:count], summed[:count], self.lr if lr is None else lr)})
        self.client.begin(self.client.clock + 1)

    def settle(self) -> None:
        """Wait until what was pushed is in."""
        self.client.settle()

    @property
    def rows(self) -> int:
        """Rows that have been made."""
        return self.client.stats()[_NAME]["rows"]

    @property
    def bytes(self) -> int:
        """Memory that they take."""
        return self.client.stats()[_NAME]["bytes"]

    def _keys(self, keys: Any) -> Array:
        index = np.asarray(keys)
        if index.dtype.kind not in "iu" or (index.size and int(index.min()) < 0):
            raise ShapeError(f"keys {index.dtype} {index.shape}: expected integers from 0 on")
        return np.ascontiguousarray(index, np.int64)


def _spec(columns: int, initial: Initial | None, optimizer: str, options: Any, rules: Any) -> TableSpec:
    return TableSpec(_NAME, columns, initial or Initial(), optimizer, dict(options or {}), **rules)


class LocalTable(_Table):
    """Rows of `columns` float32 numbers by key, in this process; arguments as those of `SparseTable`."""

    def __init__(
        self,
        columns: int,
        *,
        initial: Initial | None = None,
        optimizer: str = "SGD",
        options: dict[str, Any] | None = None,
        folder: str | Path | None = None,
        **rules: Any,
    ) -> None:
        spec = _spec(columns, initial, optimizer, options, rules)
        super().__init__(spec, [Here(TableServer(0, [spec], 1, Order(), None if folder is None else Path(folder)))])


class SparseTable(_Table):
    """Rows of `columns` float32 numbers by key, on Ray actors: `servers` of them, each with the keys that hash to it.

        table = SparseTable(8, servers=2, mode="async", optimizer="Adagrad", options={"lr": 0.1})
        rows = table.pull(keys)          # [..., 8]; a key that is new begins as `initial` says
        table.push(keys, gradients)
        table.close()

    mode, staleness, merge   see `pdl.distributed.tables.server.Order`
    optimizer, options       by which servers change rows: SGD, Adam, AdamW, Adagrad, RMSprop or Adadelta
    folder                   for snapshots, where a server that was lost can read them; without one its rows are gone
    rules                    admit, forget and rows_in_memory of `TableSpec`
    """

    def __init__(
        self,
        columns: int,
        *,
        servers: int = 1,
        mode: Any = "sync",
        staleness: int = 4,
        merge: int = 16,
        initial: Initial | None = None,
        optimizer: str = "SGD",
        options: dict[str, Any] | None = None,
        folder: str | Path | None = None,
        cache_rows: int = 0,
        replay_megabytes: float = 64.0,
        timeout: float = 600.0,
        **rules: Any,
    ) -> None:
        spec, order = _spec(columns, initial, optimizer, options, rules), Order(mode, staleness, merge)
        self._job, self._count = f"table-{secrets.token_hex(4)}", servers
        place = None if folder is None else Path(folder).absolute()
        address, token = actors.start(servers, [spec], 1, order, place, self._job)
        super().__init__(
            spec, actors.connect(address, token, servers, self._job, timeout), order=order, cache_rows=cache_rows,
            replay_megabytes=None if folder is None else replay_megabytes, timeout=timeout,
        )  # fmt: skip

    def close(self) -> None:
        """End the servers."""
        self.client.close()
        actors.stop(self._count, self._job)


__all__ = ["LocalTable", "SparseTable"]
