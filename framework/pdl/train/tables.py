"""`ServedTables`: the lookup tables of a model on servers, while it is trained.

The dense part stays with the processes that train, which average its gradients step by step (`ParallelTrainer`); tables
are asked for the rows of a batch by the lookups themselves, and get the gradients of these before the update of the
rest. Parameter servers: Li et al., OSDI 2014; bounded staleness: Ho et al., NIPS 2013.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from pdl.distributed.group import Group
from pdl.distributed.tables import actors
from pdl.distributed.tables.client import TableClient
from pdl.distributed.tables.keys import Initial
from pdl.distributed.tables.server import Order, stand_at
from pdl.distributed.tables.shard import TableSpec
from pdl.dtype import Array
from pdl.errors import UsageError
from pdl.nn import Module, Table
from pdl.ops.embedding import Source
from pdl.ops.sparse import SparseGrad
from pdl.optim import Optimizer
from pdl.train.hooks import Hook
from pdl.train.settings import Distributed, TrainSettings
from pdl.train.task import Task

FOLDER = "tables"


class ServedTables(Hook):
    """Takes the tables of `model` out of `optimizer`, and has servers of Ray keep and update them.

    In evaluations, checkpoints and after the training the model has all rows (`whole`); `clip_norm` and `clip_value`
    are of the dense part alone. A checkpoint goes with a snapshot of each server, taken between two steps of all
    processes, so the two are of one moment.
    """

    def __init__(
        self,
        distributed: Distributed,
        train: TrainSettings,
        task: Task,
        model: Module,
        optimizer: Optimizer,
        group: Group | None = None,
    ) -> None:
        assert distributed.tables is not None
        self.settings, self.timeout, self.task, self.group = distributed.tables, distributed.timeout, task, group
        named = model.named_parameters()
        self.tables = {name: p for name, p in named if isinstance(p, Table) and p.requires_grad}
        self._check(distributed, train, model)
        self.rates = self._take_out(optimizer)
        kind = type(optimizer).__name__
        self.specs = [self._spec(name, kind, train.seed + 7919 * at) for at, name in enumerate(self.tables)]
        self.folder: Path | None = None  # for snapshots
        self.share = 1.0  # of this process in the mean over all samples
        self.client: TableClient | None = None
        self.model = model
        self._job, self._fresh = "", -1
        self._tag: str | None = None  # of the snapshots that the latest checkpoint goes with
        self._serve(True)

    def _check(self, distributed: Distributed, train: TrainSettings, model: Module) -> None:
        where = "distributed.tables"
        if not self.tables:
            raise UsageError(
                f"{where}: no lookup of {type(model).__name__} is sparse, so it has no tables for servers; set "
                "model.sparse=true, and a loss over a sample of items where there are many (task.loss.negatives=...)"
            )
        if train.ema is not None:
            raise UsageError(f"{where}: train.ema needs the whole of every table after every step; leave it out")
        if distributed.zero > 1 or distributed.model > 1:
            raise UsageError(f"{where}: distributed.zero=2 and 3, tensor and pipeline do not go with it")
        for name, p in self.tables.items():
            if p.size * 4 > self.settings.whole_megabytes * 2**20:
                raise UsageError(
                    f"{where}: {name} {p.shape} has {p.size * 4 / 2**20:.0f} MB, more than whole_megabytes="
                    f"{self.settings.whole_megabytes:g}, so it cannot be put together for evaluation, checkpoint and "
                    "bundle; raise that, or use pdl.distributed.tables.SparseTable in a program of your own"
                )

    def _take_out(self, optimizer: Optimizer) -> dict[str, dict[str, Any]]:
        """The group of options of each table, which the optimiser here does not know any more."""
        found = {}
        for group in optimizer.param_groups:
            pairs = list(zip(group["names"], group["params"], strict=True))
            found.update({name: group for name, _ in pairs if name in self.tables})
            group["names"] = [name for name, _ in pairs if name not in self.tables]
            group["params"] = [p for name, p in pairs if name not in self.tables]
        return found

    def _spec(self, name: str, kind: str, seed: int) -> TableSpec:
        table, settings, group = self.tables[name], self.settings, self.rates[name]
        how, a, b = table.initial
        memory = settings.rows_in_memory
        return TableSpec(
            name=name,
            columns=table.shape[1],
            initial=Initial(how, a, b, seed, table.padding),
            optimizer=kind,
            options={key: value for key, value in group.items() if key not in ("names", "params")},
            admit=settings.admit,
            forget=settings.forget,
            rows_in_memory=None if memory is None else -(-memory // settings.servers),
            family=self._first_of(table.family),
        )

    def _first_of(self, family: Any) -> str | None:
        """The first of its tables. Where pulls are counted, those of one table alone are: tables stay apart."""
        if family is None or self.settings.admit > 1:
            return None
        return next(name for name, table in self.tables.items() if table.family == family)

    def _serve(self, on: bool) -> None:
        for name, table in self.tables.items():
            table.served = _Rows(self, name) if on else None

    # -- while it is trained
    # ---------------------------------------------------------------------------------------------
    def on_start(self, trainer: Any) -> None:
        """Start the servers, in the first process, and connect."""
        settings, first = self.settings, self.group is None or self.group.rank == 0
        if trainer.state.step and self._tag is None:
            raise UsageError(
                "distributed.tables: the run was trained without them and cannot go on with them; start a new one"
            )
        order = Order(settings.mode, settings.staleness, settings.merge)
        self.trainer, said = trainer, ""
        if first:
            assert self.folder is not None
            stand_at(self.folder, settings.servers, self._tag)
            self._job = f"tables-{secrets.token_hex(4)}"
            reached = actors.start(settings.servers, self.specs, self._workers, order, self.folder, self._job)
            said = " ".join((self._job, *reached))
        if self.group is not None:
            said = self.group.texts(said)[0]
        self._job, address, token = said.split(" ")
        self.client = TableClient(
            self.specs,
            actors.connect(address, token, settings.servers, self._job, self.timeout),
            worker=0 if self.group is None else self.group.rank,
            workers=self._workers,
            order=order,
            cache_rows=settings.cache_rows,
            replay_megabytes=settings.replay_megabytes,
            timeout=self.timeout,
            notify=lambda line: trainer.emit("on_message", line),
        )
        self.client.start()
        trainer.emit(
            "on_message",
            f"tables: {', '.join(self.tables)}; servers: {settings.servers}, {settings.mode}",
        )

    @property
    def _workers(self) -> int:
        return 1 if self.group is None else self.group.size

    def on_batch(self, trainer: Any) -> None:
        """Rows of another step; those of its batches are pulled once."""
        assert self.client is not None
        if self.client.clock != trainer.state.step or not self._begun:
            self._begun = True
            self.client.begin(trainer.state.step)

    _begun = False

    def sync_gradients(self, trainer: Any) -> None:
        """Push the gradients of the tables."""
        assert self.client is not None
        self.client.clock = trainer.state.step  # also of a process that had no batch
        updates = {}
        for name, table in self.tables.items():
            updates[name] = (*self._gradient(name, table), self.rates[name]["lr"])
            table.grad = None
        self.client.push(updates, self.share)
        self._begun = False

    def _gradient(self, name: str, table: Table) -> tuple[Array, Array]:
        g = table.grad
        if g is None:
            return np.empty(0, np.int64), np.empty((0, table.shape[1]), np.float32)
        if not isinstance(g, SparseGrad):
            raise UsageError(
                f"distributed.tables: the step uses all rows of {name}, as a softmax over all items does; use a loss "
                "over a sample (task.loss.negatives=...), or leave distributed.tables out"
            )
        rows = g.rows.data
        count = int(np.count_nonzero(rows >= 0))
        return rows[:count], g.values.data[:count]

    def prefetch(self, batch: Any) -> None:
        """Ask for the rows of the batch after the next one; None: there is none."""
        if self.client is None:
            return
        wanted = {} if batch is None else self.task.table_rows(self.model, batch)
        known = {
            name: (np.ascontiguousarray(index, np.int64).reshape(-1), self.tables[name].padding)
            for name, index in wanted.items()
            if name in self.tables
        }
        self.client.prefetch(known, self.trainer.state.step + 1)

    # -- the whole
    # -------------------------------------------------------------------------------------------------------
    @contextmanager
    def whole(self) -> Iterator[None]:
        """The model has all rows inside the block, as they are now; where the step is another one than the last time,
        all processes must ask."""
        self.refresh()
        self._serve(False)
        try:
            yield
        finally:
            if self.client is not None:
                self._serve(True)

    def refresh(self) -> None:
        """Put all rows into the model."""
        if self.client is None or self._fresh == self.trainer.state.step:
            return
        self._together()
        for name, table in self.tables.items():
            table._data[...] = self.client.whole(name, table.shape[0])
        self._fresh = self.trainer.state.step
        self._together()

    def _together(self) -> None:
        """Until what all processes have pushed is in."""
        assert self.client is not None
        self.client.settle()
        if self.group is not None:
            self.group.any(False)

    def state_dict(self) -> dict[str, Any]:
        """Keep a snapshot of the servers, and all rows in the model; all processes must ask."""
        if self.client is None:
            return {"tag": self._tag, "servers": self.settings.servers}
        self.refresh()
        tag = self._tag = f"step-{self.trainer.state.step:010d}"
        self._together()
        if self.client.worker == 0:
            self.client.snapshot(tag)
        self._together()
        return {"tag": tag, "servers": self.settings.servers}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """The snapshot to begin with."""
        if state and state["servers"] != self.settings.servers:
            raise UsageError(
                f"distributed.tables: the run has snapshots of {state['servers']} servers; go on with as many "
                f"(distributed.tables.servers={state['servers']})"
            )
        self._tag = state.get("tag")

    def close(self) -> None:
        """End the servers; the model keeps what it has."""
        if self.client is not None:
            self.client.close()
            self.client = None
            actors.stop(self.settings.servers if self.group is None or self.group.rank == 0 else 0, self._job)
        self._serve(False)


class _Rows(Source):
    """The rows of one table, as lookups ask for them."""

    def __init__(self, tables: ServedTables, name: str) -> None:
        self.tables, self.name = tables, name

    def read(self, index: Array, out: Array, padding: int | None) -> None:
        """From the servers."""
        self._client.read(self.name, index, out, padding)

    def combine(self, rows: Array, values: Array, index: Array, g: Array, padding: int | None) -> None:
        """In the order in which they were asked for."""
        if g.dtype != np.float32:
            return super().combine(rows, values, index, g, padding)
        self._client.combine(rows, values, index, g, padding)

    @property
    def _client(self) -> TableClient:
        if self.tables.client is None:
            raise UsageError(f"{self.name}: its rows are with table servers that do not run; train it by pdl.workflow")
        return self.tables.client


class Ahead:
    """A loader whose next batch is known while one is used: `tables` ask for its rows. It stands where it would stand
    without."""

    def __init__(self, loader: Any, tables: ServedTables) -> None:
        self.loader, self.tables, self._state = loader, tables, None

    def __iter__(self) -> Iterator[Any]:
        batches, keeps = iter(self.loader), hasattr(self.loader, "state_dict")
        self.tables.prefetch(None)  # of an iteration that was left
        batch = next(batches, self)  # itself: there is none
        while batch is not self:
            self._state = self.loader.state_dict() if keeps else None
            following = next(batches, self)
            self.tables.prefetch(None if following is self else following)
            yield batch
            batch = following
        self._state = None

    def __len__(self) -> int:
        return len(self.loader)

    def __getattr__(self, name: str) -> Any:
        if name == "state_dict" and hasattr(self.loader, name):
            return lambda: self.loader.state_dict() if self._state is None else self._state
        return getattr(self.loader, name)


__all__ = ["FOLDER", "Ahead", "ServedTables"]
